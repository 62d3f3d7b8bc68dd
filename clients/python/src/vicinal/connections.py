"""
How the blocking client reaches a service over HTTP: with its own connections, or with httpx.

What httpx and httpcore do around a request (addresses, cookies, redirects, events of a parser in Python) takes longer
than the rest of a search call. Here, a request is written in one step, and llhttp, the parser of Node, reads its
answer. The sockets are those of httpcore. httpx is used only where it is needed: for the caller's own client, a proxy
of the environment, or a password in the address.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import httpcore
import httpx

from .answer_reader import AnswerReader
from .errors import ClosedError
from .forks import renew_after_fork
from .http_codec import httpx_arguments, response_of
from .operation import HttpRequest, HttpResponse
from .pool import CONNECTIONS_MAX, NOT_SHARED, Pool
from .target import Streamed, Target, needs_httpx, no_cookies

_READ_BYTES = 64 * 1024


class Connections(Protocol):
    """What the blocking transport needs from a library."""

    @property
    def is_closed(self) -> bool:
        """Whether requests can no longer be sent."""

    def send(self, request: HttpRequest) -> HttpResponse:
        """Return the whole answer."""

    def stream(self, request: HttpRequest) -> AbstractContextManager[Streamed[Iterator[bytes]]]:
        """Return the answer as soon as its head has arrived."""

    def close(self) -> None:
        """Close the connections, unless they belong to the caller."""


def connections_to(target: Target, client: httpx.Client | None) -> Connections:
    """Return the connections that the client uses. Threads may share them."""
    if client is None and not needs_httpx(target.url):
        return _OwnConnections(target)
    return _HttpxConnections(target, client)


class _OwnConnections:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._pool: Pool[_Connection] = Pool()
        self._free = threading.Semaphore(CONNECTIONS_MAX)
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Open own connections from now on. Threads that had acquired the semaphore are not in this process."""
        self._pool.after_fork()
        self._free = threading.Semaphore(CONNECTIONS_MAX)

    @property
    def is_closed(self) -> bool:
        return self._pool.is_closed

    def send(self, request: HttpRequest) -> HttpResponse:
        with self.stream(request) as response:
            return HttpResponse(response.status, response.headers, b"".join(response.chunks))

    @contextmanager
    def stream(self, request: HttpRequest) -> Iterator[Streamed[Iterator[bytes]]]:
        parts = self._target.parts_of(request)
        if not self._free.acquire(timeout=self._target.timeout_s):
            raise httpcore.PoolTimeout
        try:
            connection = self._pool.take() or self._connect()
            try:
                answer = connection.ask(parts)
                yield Streamed(answer.status, answer.headers, connection.chunks(answer))
            finally:
                self._pool.put_back(connection)
        finally:
            self._free.release()

    def close(self) -> None:
        self._pool.close()

    def _connect(self) -> _Connection:
        target = self._target
        stream = httpcore.SyncBackend().connect_tcp(target.host, target.port, target.timeout_s)
        if target.ssl_context is not None:
            stream = stream.start_tls(target.ssl_context, target.host, target.timeout_s)
        connection = _Connection(stream, target.timeout_s)
        self._pool.add(connection)
        return connection


class _Connection:
    def __init__(self, stream: httpcore.NetworkStream, timeout_s: float) -> None:
        self.is_reusable = False
        self._stream = stream
        self._timeout_s = timeout_s

    @property
    def is_readable(self) -> bool:
        return bool(self._stream.get_extra_info("is_readable"))

    def ask(self, parts: Sequence[bytes]) -> AnswerReader:
        """Send a request; return its answer as soon as its head has arrived."""
        self.is_reusable = False
        answer = AnswerReader()
        try:
            for part in parts:
                self._stream.write(part, self._timeout_s)
        except httpcore.WriteError:
            # The service may have refused the request before all of it was sent; then its answer has arrived.
            pass
        while not answer.has_head:
            answer.feed(self._stream.read(_READ_BYTES, self._timeout_s))
        return answer

    def chunks(self, answer: AnswerReader) -> Iterator[bytes]:
        """Yield the body of an answer in chunks."""
        while True:
            yield from answer.take_body()
            if answer.is_complete:
                break
            answer.feed(self._stream.read(_READ_BYTES, self._timeout_s))
        self.is_reusable = answer.keeps_alive

    def close(self) -> None:
        self._stream.close()


class _HttpxConnections:
    def __init__(self, target: Target, client: httpx.Client | None) -> None:
        self._target = target
        self._is_owned = client is None
        self._client = client or self._own_client()
        self._is_used = False
        self._is_of_parent = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Use another client from now on: httpx closes connections with locks that may be held for ever."""
        if not self._is_used:
            return
        self._is_of_parent = not self._is_owned
        if self._is_owned and not self.is_closed:
            self._client = self._own_client()

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    def send(self, request: HttpRequest) -> HttpResponse:
        return response_of(self._used_client().request(**httpx_arguments(self._target, request)))

    @contextmanager
    def stream(self, request: HttpRequest) -> Iterator[Streamed[Iterator[bytes]]]:
        with self._used_client().stream(**httpx_arguments(self._target, request)) as response:
            yield Streamed(response.status_code, response.headers, response.iter_raw())

    def close(self) -> None:
        if self._is_owned:
            self._client.close()

    def _own_client(self) -> httpx.Client:
        target = self._target
        return httpx.Client(timeout=target.timeout_s, verify=target.ssl_context or True, cookies=no_cookies())

    def _used_client(self) -> httpx.Client:
        if self._is_of_parent:
            raise ClosedError(NOT_SHARED)
        self._is_used = True
        return self._client
