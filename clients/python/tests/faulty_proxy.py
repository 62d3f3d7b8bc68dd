"""A proxy in front of a real service that injects faults on command."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["overloaded", "not ready", "lose the answer", "lose the request", "bad gateway", "come in an hour"]
_refusals: dict[str, tuple[int, str]] = {
    "overloaded": (429, "0"),
    "not ready": (503, "0"),
    "bad gateway": (502, "0"),
    "come in an hour": (429, "3600"),
}


class FaultyProxy:
    """Injects each of `faults` into one answer, in order, then no more."""

    def __init__(self, service_url: str) -> None:
        self._target = urlsplit(service_url).netloc
        self._lock = threading.Lock()
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str | None]] = []
        """Paths with idempotency keys, in the order of the requests."""
        self.authorizations: list[str | None] = []
        self.cookies: list[str | None] = []
        """Each answer sets one."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FaultyProxy:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy._handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", "0")))
        with self._lock:
            self.requests.append((request.path, request.headers.get("idempotency-key")))
            self.authorizations.append(request.headers.get("authorization"))
            self.cookies.append(request.headers.get("cookie"))
            fault = self.faults.pop(0) if self.faults else None
        if fault == "lose the request":
            request.close_connection = True
        elif fault is not None and fault in _refusals:
            status, retry_after = _refusals[fault]
            _answer(request, status, {"retry-after": retry_after, "content-type": "text/plain"}, fault.encode())
        else:
            self._forward(request, body, lose=fault == "lose the answer")

    def _forward(self, request: BaseHTTPRequestHandler, body: bytes, *, lose: bool) -> None:
        connection = http.client.HTTPConnection(self._target)
        try:
            headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
            connection.request(request.command, request.path, body or None, headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if lose:
            request.close_connection = True
            return
        _answer(request, response.status, {"content-type": response.getheader("content-type", "")}, content)


def _answer(request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes) -> None:
    request.send_response(status)
    request.send_header("set-cookie", "node=a")
    for name, value in headers.items():
        request.send_header(name, value)
    if status != 204:
        request.send_header("content-length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)
