"""Runs the examples of a README: its Python blocks in their order, each followed by what it prints."""

from __future__ import annotations

import contextlib
import io
import re
from itertools import pairwise
from pathlib import Path

from real_service import Service


def check_examples(readme: Path, service: Service) -> None:
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL)
    examples = [(code, text) for (kind, code), (_, text) in pairwise(blocks) if kind == "python"]
    assert examples
    assert len(examples) == len(blocks) / 2
    names: dict[str, object] = {}
    for code, expected in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code.replace("http://127.0.0.1:3000", service.url), names)
        assert printed.getvalue() == expected, f"printed:\n{printed.getvalue()}"
