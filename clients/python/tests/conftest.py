from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from real_service import API_KEY, Service

from vicinal import AsyncVicinal, Vicinal

from .clients import waiting
from .faulty_proxy import FaultyProxy

_numbers = itertools.count()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="session", params=["http", "async http"])
def http_client(request: pytest.FixtureRequest, service: Service, runner: asyncio.Runner) -> Iterator[Vicinal]:
    """A client for operations that gRPC does not offer."""
    yield from _clients(service.url, runner, is_async="async" in request.param)


@pytest.fixture(scope="session", params=["grpc", "async grpc"])
def grpc_client(request: pytest.FixtureRequest, service: Service, runner: asyncio.Runner) -> Iterator[Vicinal]:
    """A client for behaviour that differs over gRPC."""
    yield from _clients(service.grpc_url, runner, is_async="async" in request.param)


@pytest.fixture(scope="session", params=["http", "async http", "grpc", "async grpc"])
def client(request: pytest.FixtureRequest, service: Service, runner: asyncio.Runner) -> Iterator[Vicinal]:
    """A client of each kind: a test that uses it runs once for each kind."""
    url = service.grpc_url if "grpc" in request.param else service.url
    yield from _clients(url, runner, is_async="async" in request.param)


@pytest.fixture
def proxy(service: Service) -> Iterator[FaultyProxy]:
    with FaultyProxy(service.url) as one:
        yield one


def _clients(url: str, runner: asyncio.Runner, *, is_async: bool) -> Iterator[Vicinal]:
    if is_async:
        asynchronous = AsyncVicinal(url, api_key=API_KEY)
        yield waiting(asynchronous, runner)
        runner.run(asynchronous.close())
    else:
        with Vicinal(url, api_key=API_KEY) as one:
            yield one


@pytest.fixture
def points(client: Vicinal) -> Vicinal:
    """An empty collection."""
    name = f"test-{next(_numbers)}"
    client.collections.put(name)
    return client.collection(name)
