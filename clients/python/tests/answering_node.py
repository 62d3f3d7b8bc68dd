"""
A node that answers over HTTP and gRPC with the headers or metadata that a test specifies, and records those that it
receives. A test cannot make real nodes fail, lag or lack points on command.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import grpc

Headers = dict[str, str]
ABOUT_CLUSTERS = ("vicinal-position", "vicinal-consistency")

_BODIES = {
    "count": b'{"count": 3}',
    "search": b'{"results": [], "hits": []}',
    "batch": b'{"results": [], "hits": []}',
    "list": b'{"points": []}',
    "facets": b'{"facets": {}}',
    "collections": b'{"collections": []}',
    "map": b'{"similarity": "Cosine", "seed": 0, "k": 1, "matching": 0, "points": []}',
}
"""Bodies by the last part of the path."""
_MESSAGES = {"CountPoints": b"\x08\x03"}
"""Messages by method; other methods answer with an empty message."""
_CODES = {503: grpc.StatusCode.UNAVAILABLE, 400: grpc.StatusCode.INVALID_ARGUMENT}


@dataclass
class Answer:
    """The headers of an answer; for a refusal, also its status and text."""

    headers: Headers = field(default_factory=dict)
    status: int = 200
    words: str = ""


class AnsweringNode:
    """Sends each of `answers` in order, then plain answers."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[Headers] = []
        """The headers about clusters in each request."""
        self._lock = threading.Lock()
        self._is_stopped = False

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def grpc_url(self) -> str:
        return f"grpc://127.0.0.1:{self._grpc_port}"

    def __enter__(self) -> AnsweringNode:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self._grpc = grpc.server(ThreadPoolExecutor(2))
        self._grpc.add_generic_rpc_handlers([_Methods(self)])
        self._grpc_port = self._grpc.add_insecure_port("127.0.0.1:0")
        self._grpc.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the node: its connections, too."""
        if self._is_stopped:
            return
        self._is_stopped = True
        self._grpc.stop(None).wait()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def next_answer(self, said: Headers) -> Answer:
        """Record a request's headers, and return the answer to it."""
        with self._lock:
            self.requests.append({name: value for name, value in said.items() if name in ABOUT_CLUSTERS})
            return self.answers.pop(0) if self.answers else Answer()


def _handler_of(node: AnsweringNode) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            if node.is_stopped:
                self.close_connection = True
                return
            answer = node.next_answer({name.lower(): value for name, value in self.headers.items()})
            name = self.path.partition("?")[0].rpartition("/")[2]
            body = _BODIES.get(name, b"") if answer.status == 200 else answer.words.encode()
            self.send_response(answer.status)
            for header, value in {**answer.headers, "content-length": str(len(body))}.items():
                self.send_header(header, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, node: AnsweringNode) -> None:
        self._node = node

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        return grpc.unary_unary_rpc_method_handler(self._answering(name))

    def _answering(self, name: str) -> Callable[[bytes, Any], bytes]:
        def answer(message: bytes, context: Any) -> bytes:
            given = self._node.next_answer(dict(context.invocation_metadata()))
            context.set_trailing_metadata(tuple(given.headers.items()))
            if given.status != 200:
                context.abort(_CODES[given.status], given.words)
            return _MESSAGES.get(name, b"")

        return answer
