"""An endpoint with OpenAI's interface, on a free port, that embeds a text by counting its letters."""

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

    def __enter__(self) -> Endpoint:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
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
        return {"EMBEDDINGS_URL": f"http://127.0.0.1:{self._server.server_port}/v1", "EMBEDDINGS_MODEL": MODEL}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        vectors = [embedding_of(text) for text in request["input"]]
        data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        body = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
