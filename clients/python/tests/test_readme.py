from __future__ import annotations

from pathlib import Path

import pytest
from examples import check_examples
from real_service import TREE, Service

PAGES = [
    "clients/python/README.md",
    "docs/clients/python.md",
    "docs/coming-from.md",
    "docs/recipes/rag-python.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_print_what_the_page_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The examples use paths relative to the root of the checkout.
    monkeypatch.chdir(TREE)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with Service(tmp_path) as service:
        check_examples(TREE / page, service)
