from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from real_service import API_KEY, Service

from vicinal import (
    AlreadyExistsError,
    AsyncVicinal,
    GeoPoint,
    InvalidArgumentError,
    KeyInfo,
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    Quotas,
    UnauthenticatedError,
    Vicinal,
)

from .clients import waiting


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with an audit and a file of keys."""
    directory = tmp_path_factory.mktemp("keyed")
    keys = directory / "keys"
    keys.touch(mode=0o600)
    with Service(directory / "data", AUDIT="all", API_KEYS_FILE=str(keys), HTTP_API_KEY=API_KEY) as running:
        yield running


@pytest.fixture(params=["http", "async http", "grpc", "async grpc"])
def admin(request: pytest.FixtureRequest, keyed: Service, runner: asyncio.Runner) -> Iterator[Vicinal]:
    url = keyed.grpc_url if "grpc" in request.param else keyed.url
    if "async" in request.param:
        asynchronous = AsyncVicinal(url, api_key=API_KEY)
        yield waiting(asynchronous, runner)
        runner.run(asynchronous.close())
    else:
        with Vicinal(url, api_key=API_KEY) as one:
            yield one


def test_a_key_is_created_used_and_revoked(admin: Vicinal, keyed: Service) -> None:
    created = admin.keys.create("acme")
    assert created.info == KeyInfo(name="acme", role="read")
    with Vicinal(keyed.url, api_key=created.key) as user:
        assert user.count() == 0
        with pytest.raises(PermissionDeniedError):
            user.keys.list()
        with pytest.raises(AlreadyExistsError):
            admin.keys.create("acme")
        admin.keys.revoke("acme")
        with pytest.raises(UnauthenticatedError):
            user.count()
    with pytest.raises(NotFoundError):
        admin.keys.revoke("acme")


def test_a_key_is_what_it_was_made(admin: Vicinal) -> None:
    info = KeyInfo(
        name="limited",
        role="write",
        collections=["docs-*", "default"],
        filter={
            "$and": [
                {"tenant": "acme"},
                {"level": {"$gte": 1.5, "$lt": 1000}},
                {"$or": [{"kind": {"$in": ["x", "y"]}}, {"$not": {"tags": {"$all": ["a", "b"]}}}]},
                {"at": datetime(2026, 1, 1, 0, 0, 0, 1, UTC)},
                {"place": GeoPoint(1, 2)},
                {"name": {"$prefix": "ab"}},
                {"flag": {"$exists": True}},
                {"open": False},
            ]
        },
        expires_at=datetime(2040, 1, 1, tzinfo=UTC),
        quotas=Quotas(points=10**12, requests_per_second=100, searches_in_flight=8),
    )
    created = admin.keys.create(
        info.name,
        info.role,
        collections=info.collections,
        filter=info.filter,
        expires_at=info.expires_at,
        quotas=info.quotas,
    )
    assert created.info == info
    assert admin.keys.list() == [info]
    admin.keys.revoke(info.name)
    wider: list[dict[str, Any]] = [
        {"collections": []},
        {"quotas": Quotas(bytes=1)},
        {"filter": {}},
        {"role": "root"},
    ]
    for faults in wider:
        with pytest.raises(InvalidArgumentError):
            admin.keys.create("wider", **faults)
    for name in ("..", "", "a/b"):
        with pytest.raises(InvalidArgumentError):
            admin.keys.revoke(name)


def test_the_audit_says_who_did_what(admin: Vicinal) -> None:
    before = datetime.now(UTC)
    admin.count()
    with pytest.raises(NotFoundError):
        admin.keys.revoke("nobody")
    page = admin.audit(since=before - timedelta(seconds=1), operation="RevokeKey", limit=1)
    assert len(page.records) == 1
    record = page.records[0]
    assert (record.error, record.allowed, record.target) == ("not_found", True, None)
    assert record.key in ("GRPC_ROOT_PASSWORD", "HTTP_API_KEY")
    assert abs(record.time - before) < timedelta(minutes=1)
    assert page.next_cursor is not None
    older = admin.audit(operation="RevokeKey", cursor=page.next_cursor)
    assert all(each.time <= record.time for each in older.records)
    assert admin.audit(operation="CountPoints", collection="default", key=record.key, allowed=True).records
    assert admin.audit(until=before - timedelta(days=1)).records == []
    with pytest.raises(InvalidArgumentError):
        admin.audit(cursor="x")


def test_what_needs_a_setting_names_it(client: Vicinal) -> None:
    with pytest.raises(PreconditionFailedError, match="AUDIT"):
        client.audit()
    with pytest.raises(PreconditionFailedError, match="API_KEYS_FILE"):
        client.keys.list()
