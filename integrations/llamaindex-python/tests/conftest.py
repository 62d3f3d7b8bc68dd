from __future__ import annotations

from collections.abc import Iterator

import pytest
from real_service import API_KEY, Service
from vicinal import Vicinal


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture(scope="session")
def client(service: Service) -> Iterator[Vicinal]:
    with Vicinal(service.url, api_key=API_KEY) as one:
        yield one
