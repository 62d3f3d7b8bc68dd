"""Uses the installed package, without anything that only development has."""

from __future__ import annotations

import tempfile
from pathlib import Path

import vicinal

from .service import API_KEY, Service


def main() -> None:
    assert "site-packages" in vicinal.__file__, vicinal.__file__
    with tempfile.TemporaryDirectory() as data_dir, Service(Path(data_dir)) as service:
        with vicinal.Vicinal(service.url) as client:
            id = client.insert([1, 2, 3], "x")
            assert client.search([1, 2, 3], "Cosine", limit=1, include=None).ids == [id]
        try:
            vicinal.Vicinal(service.grpc_url, api_key=API_KEY)
        except ImportError as error:
            assert "vicinal[grpc]" in str(error)
        else:
            raise AssertionError("grpcio is not installed here")
    print(f"the wheel of vicinal {vicinal.__version__} works in an empty environment")


if __name__ == "__main__":
    main()
