from __future__ import annotations

from pathlib import Path

from examples import check_examples
from real_service import Service


def test_the_example_prints_what_the_readme_says(service: Service) -> None:
    check_examples(Path(__file__).parents[1] / "README.md", service)
