"""The README's examples run, in their order, and print what it says."""

from __future__ import annotations

import contextlib
import io
import re
from itertools import pairwise
from pathlib import Path

from .service import Service

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_print_what_the_readme_says(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    examples = [(code, text) for (kind, code), (_, text) in pairwise(blocks) if kind == "python"]
    assert len(examples) == len(blocks) / 2
    names: dict[str, object] = {}
    with Service(tmp_path) as service:
        for code, expected in examples:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code.replace("http://127.0.0.1:3000", service.url), names)
            assert printed.getvalue() == expected
