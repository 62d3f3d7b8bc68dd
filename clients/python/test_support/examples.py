"""Runs the examples of a page: in their order, the Python blocks that are followed by their output."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from real_service import Service


def check_examples(readme: Path, service: Service) -> None:
    examples = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL)
    assert examples
    names: dict[str, object] = {}
    for code, expected in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code.replace("http://127.0.0.1:3000", service.url), names)
        assert printed.getvalue() == expected, f"printed:\n{printed.getvalue()}"
