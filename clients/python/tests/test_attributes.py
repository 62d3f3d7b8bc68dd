"""Attributes, expiry and chosen ids: what a point can have in addition to its content."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from vicinal import (
    AlreadyExistsError,
    Attributes,
    Columns,
    GeoPoint,
    IfAbsent,
    IfMatches,
    IfVersion,
    InvalidArgumentError,
    NewPoint,
    NotFoundError,
    PreconditionFailedError,
    Vicinal,
)

TOMORROW = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
ATTRIBUTES: Attributes = {
    "price": 9.5,
    "count": 3,
    "huge": 1e300,
    "sold": False,
    "tags": ["a", "b"],
    "at": datetime(2026, 11, 22, 10, 0, 0, 1, tzinfo=UTC),
    "where": GeoPoint(52.5, 13.4),
    "nested": {"deep": {"er": ["x", {"y": 1}]}},
    "__proto__": "a name like any other",
}


def new_id() -> str:
    return str(uuid.uuid4())


def test_attributes_come_back_as_they_were_stored(points: Vicinal) -> None:
    point = points.get(points.insert([1, 2], "x", attributes=ATTRIBUTES, expires_at=TOMORROW))
    assert point.attributes == ATTRIBUTES
    assert point.expires_at == TOMORROW


def test_none_stands_for_an_absent_value(points: Vicinal) -> None:
    point = points.get(points.insert([1, 2], "x", attributes={"a": None, "b": 1}))  # type: ignore[dict-item]
    assert point.attributes == {"b": 1}


def test_attributes_of_columns_belong_to_their_rows(points: Vicinal) -> None:
    ids = [new_id(), new_id()]
    columns = Columns([[1, 2], [3, 4]], ["a", "b"], attributes=[{"row": 0}, None], ids=ids)
    assert points.insert_batch(columns) == ids
    assert [points.get(id).attributes for id in ids] == [{"row": 0}, {}]


def test_attributes_that_the_service_refuses_are_named(points: Vicinal) -> None:
    with pytest.raises(InvalidArgumentError, match=r"a\.b"):
        points.insert([1, 2], "x", attributes={"a.b": 1})


def test_an_id_of_one_s_own_is_stored_once(points: Vicinal) -> None:
    id = new_id()
    assert points.insert([1, 2], "first", id=id.upper()) == id
    with pytest.raises(AlreadyExistsError):
        points.insert([1, 2], "second", id=id)
    assert points.insert([1, 2], "second", id=id, on_conflict="skip") == id
    assert points.get(id).content == "first"
    assert points.insert([3, 4], "third", id=id, on_conflict="replace") == id
    point = points.get(id)
    assert (point.content, point.vector.tolist()) == ("third", [3, 4])


def test_the_valid_points_of_a_batch_are_stored_and_the_others_named(points: Vicinal) -> None:
    taken = points.insert([1, 2], "x")
    result = points.insert_valid(
        [
            NewPoint(vector=[1, 2], content="good"),
            NewPoint(vector=[1, 2, 3], content="bad"),
            NewPoint(vector=[1, 2], content="taken", id=taken),
            NewPoint(vector=[3, 4], content="good too"),
        ]
    )
    assert [id is None for id in result.ids] == [False, True, True, False]
    assert [(error.index, type(error.error)) for error in result.errors] == [
        (1, InvalidArgumentError),
        (2, AlreadyExistsError),
    ]
    assert points.count() == 3


def test_a_point_is_gone_when_it_expires(points: Vicinal) -> None:
    id = points.insert([1, 2], "x", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    with pytest.raises(NotFoundError):
        points.get(id)
    lasting = points.insert([1, 2], "y", ttl=timedelta(hours=1))
    expires_at = points.get(lasting).expires_at
    assert expires_at is not None
    assert timedelta(minutes=30) < expires_at - datetime.now(UTC) < timedelta(hours=2)
    assert points.search([1, 2], "Cosine").ids == [lasting]


def test_put_creates_and_replaces(points: Vicinal) -> None:
    id = new_id()
    first = points.put(id, [1, 2], "first", attributes={"a": 1}, content_type="Image")
    assert (first.id, first.created) == (id, True)
    second = points.put(id, [3, 4], "second")
    assert not second.created
    assert second.version > first.version
    point = points.get(id, with_version=True)
    assert (point.content, point.vector.tolist(), point.attributes) == ("second", [3, 4], {})
    assert point.version == second.version


def test_conditions_guard_a_put(points: Vicinal) -> None:
    id = new_id()
    version = points.put(id, [1, 2], "x", attributes={"a": 1}, when=IfAbsent()).version
    for when in (IfAbsent(), IfVersion(version + 1), IfMatches({"a": 2})):
        with pytest.raises(PreconditionFailedError) as raised:
            points.put(id, [1, 2], "y", when=when)
        assert raised.value.reason == "precondition_failed"
    version = points.put(id, [1, 2], "y", attributes={"a": 2}, when=IfVersion(version)).version
    points.put(id, [1, 2], "z", when=IfMatches({"a": 2}))
    assert points.get(id).content == "z"


def test_patch_changes_parts(points: Vicinal) -> None:
    id = points.insert([1, 2], "x", attributes={"a": 1, "b": {"c": 2, "d": 3}}, ttl=timedelta(hours=1))
    version = points.patch(id, set={"b.c": [GeoPoint(1, 2)], "e": True}, unset=["a"])
    point = points.get(id, with_version=True)
    assert point.attributes == {"b": {"c": [GeoPoint(1, 2)], "d": 3}, "e": True}
    assert (point.content, point.vector.tolist(), point.version) == ("x", [1, 2], version)
    assert point.expires_at is not None
    points.patch(id, content="y", vector=[3, 4], expires_at=TOMORROW)
    point = points.get(id)
    assert (point.content, point.vector.tolist(), point.expires_at) == ("y", [3, 4], TOMORROW)
    points.patch(id, expires_at=None, set={"e": None})  # type: ignore[dict-item]
    assert "e" not in points.get(id).attributes
    assert points.get(id).expires_at is None
    points.patch(id, ttl=timedelta(hours=1), content_type="Image")
    assert points.get(id).content_type == "Image"
    assert points.get(id).expires_at is not None


def test_conditions_guard_a_patch(points: Vicinal) -> None:
    id = points.insert([1, 2], "x", attributes={"a": 1})
    version = points.patch(id, set={"a": 2}, when=IfMatches({"a": 1}))
    with pytest.raises(PreconditionFailedError):
        points.patch(id, set={"a": 3}, when=IfVersion(version - 1))
    points.patch(id, set={"a": 3}, when=IfVersion(version))
    assert points.get(id).attributes == {"a": 3}
    with pytest.raises(NotFoundError):
        points.patch(new_id(), set={"a": 1})
