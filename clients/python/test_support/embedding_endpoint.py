"""An endpoint on a free port that embeds a text by counting its letters, and ranks texts by their length."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

MODEL = "letters"


def embedding_of(text: str) -> list[float]:
    """The counts of a, b and c, and a constant."""
    return [*(float(text.count(letter)) for letter in "abc"), 1.0]


class Endpoint:
    """Serves inside a `with`."""

    rerank_fails = False
    """Whether the endpoint refuses to rank."""

    def __enter__(self) -> Endpoint:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def settings(self) -> dict[str, str]:
        """The settings with which the service uses this endpoint."""
        url = f"http://127.0.0.1:{self._server.server_port}/v1"
        return {"EMBEDDINGS_URL": url, "EMBEDDINGS_MODEL": MODEL, "RERANK_URL": url, "RERANK_MODEL": MODEL}


def _handler_of(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            is_rerank = self.path.endswith("/rerank")
            answer = _ranked(request["documents"]) if is_rerank else _embedded(request["input"])
            body = json.dumps(answer).encode()
            self.send_response(503 if is_rerank and endpoint.rerank_fails else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    return Handler


def _embedded(texts: list[str]) -> object:
    return {"data": [{"index": index, "embedding": embedding_of(text)} for index, text in enumerate(texts)]}


def _ranked(texts: list[str]) -> object:
    return {"results": [{"index": index, "relevance_score": 1 / len(text)} for index, text in enumerate(texts)]}
