"""A small embedding server with the interface of OpenAI: POST /v1/embeddings.

It serves all-MiniLM-L6-v2 (384 dimensions, English) on the CPU, without PyTorch. It is meant for trials and tests. For
production, use Ollama, vLLM, llama.cpp, Text Embeddings Inference or a service such as OpenAI's.

    pip install --no-deps -r requirements.txt
    python server.py --port 8080
"""

import argparse
import base64
import hmac
import json
import os
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Requests run concurrently, each on one core. On a busy machine, several library threads per request would be slower.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from model import Model

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_TEXTS = 2048


class Refusal(Exception):
    """A request that cannot be answered, with the HTTP status to return."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class EmbeddingServer(ThreadingHTTPServer):
    """Listens on the loopback interface only."""

    daemon_threads = True

    def __init__(self, port: int, api_key: str | None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.api_key = api_key
        self.model = Model()
        # Each running request occupies a core.
        self.turns = threading.BoundedSemaphore(os.cpu_count() or 1)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server: EmbeddingServer

    def do_GET(self) -> None:
        if self.path == "/health":
            return self._send(HTTPStatus.OK, {"status": "ok"})
        if self.path == "/v1/models":
            model = {"id": self.server.model.name, "object": "model", "owned_by": "sentence-transformers"}
            return self._send(HTTPStatus.OK, {"object": "list", "data": [model]})
        return self._refuse(Refusal(HTTPStatus.NOT_FOUND, f"there is nothing at {self.path}"))

    def do_POST(self) -> None:
        try:
            # Always read the body, because the next request on this connection follows it.
            body = self._body()
            self._check_key()
            if self.path != "/v1/embeddings":
                raise Refusal(HTTPStatus.NOT_FOUND, f"there is nothing at {self.path}")
            self._send(HTTPStatus.OK, self._embed(body))
        except Refusal as refusal:
            self._refuse(refusal)

    def _embed(self, body: bytes) -> dict[str, Any]:
        texts, encode = read_request(body, self.server.model.name)
        with self.server.turns:
            vectors, tokens = self.server.model.embed(texts)
        data = [
            {"object": "embedding", "index": index, "embedding": encode(vector)} for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": self.server.model.name, "usage": usage}

    def _check_key(self) -> None:
        key = self.server.api_key
        given = self.headers.get("authorization", "")
        if key is not None and not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
            raise Refusal(HTTPStatus.UNAUTHORIZED, "the API key is missing or wrong")

    def _body(self) -> bytes:
        length = int(self.headers.get("content-length", "0"))
        if length > MAX_BODY_BYTES:
            self.close_connection = True
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body must not exceed {MAX_BODY_BYTES} bytes")
        return self.rfile.read(length)

    def _refuse(self, refusal: Refusal) -> None:
        self._send(refusal.status, {"error": {"message": str(refusal), "type": "invalid_request_error"}})

    def _send(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing, because requests may be private."""


def read_request(body: bytes, name: str) -> tuple[list[str], Any]:
    """Returns the texts of a request, and a function that encodes a vector for the response."""
    try:
        request = json.loads(body)
    except ValueError:
        raise Refusal(HTTPStatus.BAD_REQUEST, "the body is not valid JSON") from None
    if not isinstance(request, dict) or request.get("model") != name:
        raise Refusal(HTTPStatus.NOT_FOUND, f"model must be {name}")
    texts = request.get("input")
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list) or not texts or not all(isinstance(each, str) and each for each in texts):
        raise Refusal(HTTPStatus.BAD_REQUEST, "input must be a non-empty text or a list of non-empty texts")
    if len(texts) > MAX_TEXTS:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"input has {len(texts)} texts; the maximum is {MAX_TEXTS}")
    if request.get("encoding_format", "float") == "base64":
        return texts, lambda vector: base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return texts, lambda vector: np.round(vector.astype(float), 8).tolist()


def main() -> None:
    """Serves until interrupted."""
    parser = argparse.ArgumentParser(description="Embeds texts with all-MiniLM-L6-v2.")
    parser.add_argument("--port", type=int, default=8080, help="0 selects a free port (default: 8080)")
    port = parser.parse_args().port
    server = EmbeddingServer(port, os.environ.get("EMBEDDINGS_API_KEY") or None)
    print(f"EMBEDDINGS_URL=http://127.0.0.1:{server.server_port}/v1 EMBEDDINGS_MODEL={Model.name}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
