"""Connections belong to a process and to an event loop. Each test is a script, because pytest itself has threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from real_service import API_KEY, Service

_HEAD = """
import asyncio, json, os, sys
import httpx
from vicinal import NO_RETRY, AsyncVicinal, Vicinal, VicinalError

url, kind, key = sys.argv[1:]
brought = (httpx.AsyncClient() if "async" in kind else httpx.Client()) if "brought" in kind else None
client = (AsyncVicinal if "async" in kind else Vicinal)(url, api_key=key, retry=NO_RETRY, http_client=brought)
loops = []

def ask():
    try:
        if "async" not in kind:
            return client.health()
        loops.append(asyncio.new_event_loop())
        return loops[-1].run_until_complete(client.health())
    except VicinalError as error:
        return error.reason
"""

_FORK = """
before = ask()
reader, writer = os.pipe()
if os.fork() == 0:
    child = ask()
    if "async" not in kind:
        client.close()
    os.write(writer, child.encode())
    # As a process ends that was not forked: with all its clean-up.
    sys.exit()
os.wait()
after = client.health() if "async" not in kind else loops[0].run_until_complete(client.health())
print(json.dumps([before, os.read(reader, 100).decode(), after]))
"""

_LOOPS = """
def run():
    answer = ask()
    loops[-1].close()
    return answer

print(json.dumps([run(), run(), run()]))
"""


def _run(script: str, *arguments: str) -> list[Any]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run(
        [sys.executable, "-c", _HEAD + script, *arguments, API_KEY],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def peer() -> Iterator[str]:
    """The address of a service whose answers are the port of the connection that the request came by."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = str(self.client_address[1]).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("kind", ["http", "async http"])
@pytest.mark.parametrize("user", ["", "user:password@"], ids=["own connections", "httpx"])
def test_a_forked_process_has_its_own_connections_and_leaves_its_parent_s_alone(
    peer: str, kind: str, user: str
) -> None:
    before, in_child, after = _run(_FORK, f"http://{user}{peer}", kind)
    assert before == after
    assert in_child.isdigit()
    assert in_child != before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("kind", ["brought http", "async brought http"])
def test_connections_of_the_caller_s_httpx_client_are_not_shared(peer: str, kind: str) -> None:
    before, in_child, after = _run(_FORK, f"http://{peer}", kind)
    assert (before, in_child) == (after, "closed")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_grpc_works_after_a_fork_and_its_async_form_refuses(service: Service) -> None:
    # Several times: with connections that channels share, a quarter of the forked processes failed.
    for _ in range(5):
        assert _run(_FORK, service.grpc_url, "grpc") == ["OK", "OK", "OK"]
    assert _run(_FORK, service.grpc_url, "async grpc") == ["OK", "unsupported", "OK"]


def test_an_async_client_works_in_one_loop_after_another(service: Service, peer: str) -> None:
    assert _run(_LOOPS, service.grpc_url, "async grpc") == ["OK", "OK", "OK"]
    for user in ("", "user:password@"):
        assert len(set(_run(_LOOPS, f"http://{user}{peer}", "async http"))) == 3
    assert _run(_LOOPS, service.url, "async brought http") == ["OK", "closed", "closed"]
