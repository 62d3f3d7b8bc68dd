from __future__ import annotations

import contextlib
import io
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from real_service import TREE, Service

ASKED: list[tuple[str, str | None, bytes]] = []


class Endpoint(BaseHTTPRequestHandler):
    """Answers like an endpoint of OpenAI."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        ASKED.append((self.path, self.headers["authorization"], body))
        answer = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Dolphins [1]."}}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_the_recipe_sends_its_prompt_and_prints_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (TREE / "docs/recipes/rag-python.md").read_text()
    program = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert program is not None
    monkeypatch.chdir(TREE)
    printed = io.StringIO()
    with Service(tmp_path) as service, HTTPServer(("127.0.0.1", 0), Endpoint) as endpoint:
        thread = threading.Thread(target=endpoint.serve_forever)
        thread.start()
        try:
            monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{endpoint.server_port}/v1")
            monkeypatch.setenv("OPENAI_MODEL", "a-model")
            monkeypatch.setenv("OPENAI_API_KEY", "a-key")
            with contextlib.redirect_stdout(printed):
                exec(program[1].replace("http://127.0.0.1:3000", service.url), {})
        finally:
            endpoint.shutdown()
            thread.join()
    assert printed.getvalue() == "Dolphins [1].\n"
    [(path, key, body)] = ASKED
    assert (path, key) == ("/v1/chat/completions", "Bearer a-key")
    assert json.loads(body)["model"] == "a-model"
    assert "\n[1] (animal) dolphin: " in json.loads(body)["messages"][0]["content"]
