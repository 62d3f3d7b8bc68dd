from __future__ import annotations

from pathlib import Path

from examples import check_examples
from real_service import Service


def test_the_examples_print_what_the_readme_says(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        check_examples(Path(__file__).parents[1] / "README.md", service)
