"""Uses the installed package, without any development dependency."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import vicinal

sys.path.append(str(Path(__file__).parents[1] / "test_support"))
from real_service import API_KEY, Service


def main() -> None:
    assert "site-packages" in vicinal.__file__, vicinal.__file__
    with tempfile.TemporaryDirectory() as data_dir, Service(Path(data_dir)) as service:
        with vicinal.Vicinal(service.url) as client:
            id = client.insert([1, 2, 3], "x")
            assert client.search([1, 2, 3], "Cosine", limit=1, include=None).ids == [id]
        _refuse_grpc(service)
    print(f"the wheel of vicinal {vicinal.__version__} works in an empty environment")


def _refuse_grpc(service: Service) -> None:
    words = ""
    try:
        vicinal.Vicinal(service.grpc_url, api_key=API_KEY)
    except ImportError as error:
        words = str(error)
    assert "vicinal[grpc]" in words, words


if __name__ == "__main__":
    main()
