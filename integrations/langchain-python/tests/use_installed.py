"""Uses the installed package, without any development dependency."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import langchain_vicinal

root = Path(__file__).parents[1]
sys.path.append(str(root / "../../clients/python/test_support"))
from examples import check_examples  # noqa: E402
from real_service import Service  # noqa: E402

if __name__ == "__main__":
    assert "site-packages" in langchain_vicinal.__file__, langchain_vicinal.__file__
    with tempfile.TemporaryDirectory() as data_dir, Service(Path(data_dir)) as service:
        check_examples(root / "README.md", service)
    print("the wheel of langchain-vicinal works in an empty environment")
