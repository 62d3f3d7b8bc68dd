"""Callers must not notice which library sends the requests: features of httpx work where callers ask for them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from real_service import API_KEY, Service

from vicinal import (
    NO_RETRY,
    AsyncVicinal,
    ClosedError,
    CollectionNotFoundError,
    ConnectionFailedError,
    DeadlineExceededError,
    InvalidArgumentError,
    NewPoint,
    Vicinal,
)

from .clients import waiting
from .faulty_proxy import FaultyProxy

NOBODY = "http://127.0.0.1:9"


@pytest.fixture(params=["http", "async http"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async http")


@contextmanager
def _client(
    url: str, runner: asyncio.Runner, *, is_async: bool, brought: bool = False, timeout_s: float = 60
) -> Iterator[Vicinal]:
    """Yield a client, optionally over a client of httpx; closes both."""
    if is_async:
        http = httpx.AsyncClient() if brought else None
        client = waiting(
            AsyncVicinal(url, api_key=API_KEY, retry=NO_RETRY, timeout_s=timeout_s, http_client=http), runner
        )
        yield client
        client.close()
        if http is not None:
            runner.run(http.aclose())
        return
    with httpx.Client() as blocking:
        given = blocking if brought else None
        with Vicinal(url, api_key=API_KEY, retry=NO_RETRY, timeout_s=timeout_s, http_client=given) as client:
            yield client


def test_a_proxy_of_the_environment_is_used(
    service: Service, runner: asyncio.Runner, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", NOBODY)
    with _client(service.url, runner, is_async=is_async) as client, pytest.raises(ConnectionFailedError):
        client.health()

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with _client(service.url, runner, is_async=is_async) as client:
        assert client.health() == "OK"


@pytest.mark.parametrize("brought", [False, True])
def test_requests_and_downloads_go_by_either_library(
    service: Service, runner: asyncio.Runner, is_async: bool, brought: bool, tmp_path: Path
) -> None:
    with _client(service.url, runner, is_async=is_async, brought=brought) as client:
        name = f"library-{is_async}-{brought}".lower()
        client.collections.put(name)
        points = client.collection(name)
        id = points.insert_batch([NewPoint(vector=[1, 2], content="straße")])[0]
        assert points.get(id).content == "straße"
        snapshot = points.snapshot(tmp_path / "snapshot")
        assert (snapshot.points, snapshot.bytes) == (1, (tmp_path / "snapshot").stat().st_size)
        with pytest.raises(CollectionNotFoundError):
            client.collection("no-such-collection").snapshot(tmp_path / "none")
        client.collections.delete(name)


def test_a_closed_client_sends_nothing(service: Service, runner: asyncio.Runner, is_async: bool) -> None:
    with _client(service.url, runner, is_async=is_async) as client:
        assert client.health() == "OK"
    with pytest.raises(ClosedError):
        client.health()


def test_a_password_in_the_address_is_sent(proxy: FaultyProxy, runner: asyncio.Runner, is_async: bool) -> None:
    url = proxy.url.replace("http://", "http://somebody:secret@")
    with _client(url, runner, is_async=is_async) as client:
        client.health()
    assert proxy.authorizations == ["Basic c29tZWJvZHk6c2VjcmV0"]


def test_a_password_in_the_address_is_in_no_error(runner: asyncio.Runner, is_async: bool) -> None:
    url = "http://somebody:secret@127.0.0.1:9"
    with _client(url, runner, is_async=is_async) as client, pytest.raises(ConnectionFailedError) as caught:
        client.health()
    assert str(caught.value).startswith("no HTTP service answers at http://127.0.0.1:9: ")


@pytest.mark.parametrize("user", ["", "somebody:secret@"])
def test_cookies_are_not_kept(proxy: FaultyProxy, runner: asyncio.Runner, is_async: bool, user: str) -> None:
    with _client(proxy.url.replace("http://", f"http://{user}"), runner, is_async=is_async) as client:
        client.health()
        client.health()
    assert proxy.cookies == [None, None]


ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK"


@contextmanager
def _answering(answers: list[bytes], tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, threading.Semaphore]]:
    """
    Listen, with or without TLS, and send one of these answers on each connection. Then close the connection and release
    the semaphore; without an answer, leave the connection open.
    """

    def serve() -> None:
        for answer in answers:
            connection, _ = listener.accept()
            if tls is not None:
                connection = tls.wrap_socket(connection, server_side=True)
            accepted.append(connection)
            connection.recv(65536)
            if answer != b"":
                connection.sendall(answer)
                connection.close()
                closed.release()

    accepted: list[socket.socket] = []
    closed = threading.Semaphore(0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http{'' if tls is None else 's'}://127.0.0.1:{listener.getsockname()[1]}", closed
        thread.join()
        for connection in accepted:
            connection.close()


def test_a_connection_that_was_closed_while_it_was_idle_is_not_used(runner: asyncio.Runner, is_async: bool) -> None:
    with (
        _answering([ANSWER, ANSWER, ANSWER]) as (url, closed),
        _client(url, runner, is_async=is_async) as client,
    ):
        for _ in range(3):
            assert client.health() == "OK"
            closed.acquire()
            # Gives the event loop one turn to check for data.
            runner.run(asyncio.sleep(0.001))


def test_a_service_that_does_not_answer_is_not_waited_for(runner: asyncio.Runner, is_async: bool) -> None:
    with (
        _answering([b""]) as (url, _),
        _client(url, runner, is_async=is_async, timeout_s=2) as client,
        pytest.raises(DeadlineExceededError),
    ):
        client.health()


def test_a_header_cannot_smuggle_in_another_one(service: Service, runner: asyncio.Runner, is_async: bool) -> None:
    with (
        _client(service.url, runner, is_async=is_async) as client,
        pytest.raises(InvalidArgumentError, match="the value of the header idempotency-key"),
    ):
        client.insert([1, 2], "x", idempotency_key="a\r\nauthorization: another")
    with pytest.raises(InvalidArgumentError, match="cannot be the name of a header"):
        Vicinal(service.url, headers={"two words": "x"})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """A certificate for this machine, and a TLS context of a server with it."""
    folder = tmp_path_factory.mktemp("certificate")
    kind = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    files = f"-addext subjectAltName=IP:127.0.0.1 -keyout {folder}/key.pem -out {folder}/certificate.pem"
    subprocess.run(["openssl", "req", *kind.split(), *files.split()], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return folder / "certificate.pem", context


def test_a_service_with_a_certificate_is_reached(
    certificate: tuple[Path, ssl.SSLContext],
    runner: asyncio.Runner,
    is_async: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, tls = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with (
        _answering([ANSWER, ANSWER], tls) as (url, closed),
        _client(url, runner, is_async=is_async) as client,
    ):
        for _ in range(2):
            assert client.health() == "OK"
            closed.acquire()
            runner.run(asyncio.sleep(0.001))


def test_a_certificate_of_nobody_known_is_refused(
    certificate: tuple[Path, ssl.SSLContext], runner: asyncio.Runner, is_async: bool
) -> None:
    _, tls = certificate
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_refused_handshake, args=(listener, tls))
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with (
            _client(url, runner, is_async=is_async) as client,
            pytest.raises(ConnectionFailedError, match="certificate"),
        ):
            client.health()
        thread.join()


def _refused_handshake(listener: socket.socket, tls: ssl.SSLContext) -> None:
    connection, _ = listener.accept()
    with connection, pytest.raises(OSError):  # noqa: PT011  any failure that the client reports
        tls.wrap_socket(connection, server_side=True)
