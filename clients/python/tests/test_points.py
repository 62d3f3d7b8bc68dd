from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast

import numpy as np
import pytest

from vicinal import (
    Columns,
    F,
    IfVersion,
    Include,
    InvalidArgumentError,
    KeyReusedError,
    NewPoint,
    NotFoundError,
    Query,
    Vicinal,
)

TIME = datetime(2030, 1, 1, tzinfo=UTC)


def new_id() -> str:
    return str(uuid.uuid4())


def test_a_point_comes_back_as_it_was_stored(points: Vicinal) -> None:
    id = points.insert([1, -0.0, 0.1], "a café\n☕", content_type="Image")
    point = points.get(id)
    assert point.id == id
    assert (point.content, point.content_type) == ("a café\n☕", "Image")
    assert point.vector.dtype == np.float32
    assert point.vector.tobytes() == np.array([1, -0.0, 0.1], np.float32).tobytes()
    assert (dict(point.attributes), point.expires_at, point.version) == ({}, None, None)


def test_any_float32_survives_the_way_there_and_back(points: Vicinal) -> None:
    random = np.random.default_rng(1)
    rows = np.frombuffer(random.bytes(4 * 64 * 50), np.float32).reshape(50, 64)
    rows = np.where(np.isfinite(rows), rows, np.float32(1))
    limits = np.finfo(np.float32)
    rows[0, :4] = [limits.max, limits.min, limits.smallest_subnormal, -limits.tiny]
    ids = points.insert_batch(Columns(rows, [str(row) for row in range(50)]))
    for row, id in zip(rows, ids, strict=True):
        assert points.get(id).vector.tobytes() == row.tobytes()


@pytest.mark.parametrize(
    "vector",
    [
        [1, 2],
        (1.0, 2.0),
        np.array([1, 2], np.int64),
        np.array([1, 2], np.float64),
        np.array([[1, 0], [2, 0]], np.float32)[:, 0],
        np.array([1, 2], ">f4"),
    ],
    ids=["list", "tuple", "int64", "float64", "strided", "big-endian"],
)
def test_vectors_may_be_anything_that_numpy_reads(points: Vicinal, vector: list[float]) -> None:
    assert points.get(points.insert(vector, "x")).vector.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1, float("nan")], r"vector\[1\] is not a finite float32"),
        ([1e39, 1], r"vector\[0\] is not a finite float32"),
        ([[1, 2]], r"vector has the shape \(1, 2\)"),
        (["a"], "vector cannot be read as float32"),
        (["1", 2], r"vector\[0\] is '1'"),
        ([1, None], r"vector\[1\] is None"),
        ([1, 1j], r"vector\[1\] is 1j"),
        (np.array([1, 1j]), r"vector\[0\] is \(1"),
        (np.array(["1", "2"]), r"vector\[0\] is '1'"),
        (np.array([1, 2], "m8[ns]"), "timedelta64"),
        (np.ma.array([1, 2], mask=[False, True]), r"vector\[1\] is masked"),
        ("12", "vector is '12'"),
    ],
)
def test_what_is_no_vector_never_leaves_the_client(points: Vicinal, vector: list[float], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        points.insert(vector, "x")


def test_an_id_may_be_a_uuid(points: Vicinal) -> None:
    id = cast("str", uuid.uuid4())
    assert points.insert([1, 2], "x", id=id) == str(id)
    assert points.insert_batch([NewPoint(vector=[1, 2], content="y", id=id, on_conflict="replace")]) == [str(id)]
    assert points.put(id, [1, 2], "z").id == points.get(id).id == str(id)
    points.patch(id, content="patched")
    points.delete(id)
    with pytest.raises(NotFoundError):
        points.get(id)


def test_a_batch_returns_ids_in_order(points: Vicinal) -> None:
    ids = points.insert_batch(NewPoint(vector=[row, 1], content=str(row)) for row in range(20))
    assert [points.get(id).content for id in ids] == [str(row) for row in range(20)]
    assert points.insert_batch([]) == []


def test_a_batch_with_a_bad_point_stores_nothing(points: Vicinal) -> None:
    only = points.insert([1, 2], "only")
    good = NewPoint(vector=[1, 2], content="good")
    with pytest.raises(InvalidArgumentError, match=r"vectors\[1\]"):
        points.insert_batch([good, NewPoint(vector=[1, 2, 3], content="bad")])
    assert points.search([1, 2], "Cosine", include=None).ids == [only]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.insert([1, 2], None), "content is None"),
        (lambda p: p.put(new_id(), [1, 2], 5), "content is 5"),
        (lambda p: p.insert([1, 2], "x", content_type="text"), 'content_type is "text", it must be one of Text, Image'),
        (lambda p: p.insert([1, 2], "x", on_conflict="update"), 'on_conflict is "update", it must be one of error, r'),
        (lambda p: p.search([1, 2], "cosine"), 'similarity is "cosine", it must be one of Euclidean, Manhattan'),
        (lambda p: p.search([1, 2], "Cosine", include={"vector": True}), "include is a dict"),
        (lambda p: p.list_points(include={"vector": True}), "include is a dict"),
        (lambda p: p.search([1, 2], "Cosine", include=Include(attributes="tags")), "include.attributes is the text"),
        (lambda p: p.patch(new_id(), set={"a": 1}, when={"version": 1}), "when is a dict"),
        (lambda p: p.put(new_id(), [1, 2], "x", when={"absent": True}), "when is a dict"),
        (lambda p: p.patch(new_id(), unset="abc"), "unset is the text 'abc'"),
        (lambda p: p.patch(new_id(), content_type="text"), 'content_type is "text"'),
        (lambda p: p.insert([1, 2], "\ud800"), "content has half of a surrogate pair"),
        (lambda p: p.insert([1, 2], "x", attributes={"a": "\ud800"}), "attributes.a has half of a surrogate pair"),
        (lambda p: p.insert([1, 2], "x", attributes=["a"]), "attributes is a list"),
        (lambda p: p.insert([1, 2], "x", ttl=timedelta(seconds=-1)), "a timedelta greater than 0 is needed"),
        (lambda p: p.insert([1, 2], "x", ttl=5), "ttl is 5"),
        (lambda p: p.insert([1, 2], "x", expires_at=datetime(2030, 1, 1)), "which has no time zone"),
        (lambda p: p.patch(new_id(), expires_at="2030"), "expires_at is '2030': a datetime is needed"),
        (lambda p: p.patch(new_id(), expires_at=TIME, ttl=timedelta(1)), "expires_at and ttl are both given"),
        (lambda p: p.search([1, 2], "Cosine", limit=2.5), "limit is 2.5, it must be a whole number"),
        (lambda p: p.search([1, 2], "Cosine", ef=-1), "ef is -1, it must be a whole number"),
        (lambda p: p.list_points(limit=0), "limit is 0, it must be a whole number"),
        (lambda p: p.facets(["a"], limit="5"), "limit is '5', it must be a whole number"),
        (lambda p: p.delete_where({"a": 1}, limit=-1), "limit is -1, it must be a whole number"),
        (lambda p: p.collections.put("x", "5"), "dimension is '5', it must be a whole number"),
        (lambda p: p.put(new_id(), [1, 2], "x", when=IfVersion("a")), "when.version is 'a'"),  # type: ignore[arg-type]
        (lambda p: p.search_batch(Query(metric="Cosine", near=[1, 2])), "queries is a Query"),
        (lambda p: p.insert_batch(NewPoint(vector=[1, 2], content="x")), "points is a NewPoint"),
        (lambda p: p.facets("tags"), "paths is the text 'tags'"),
        (lambda p: p.collections.set_aliases(remove="abc"), "remove is the text 'abc'"),
        (lambda p: p.count(F("tags").any_of("abc")), "the text 'abc'"),
        (lambda p: p.insert_batch([{"vector": [1, 2], "content": "x"}]), r"vectors\[0\] is a dict"),
    ],
)
def test_a_mistake_has_the_same_words_over_both_transports(
    points: Vicinal, call: Callable[[Vicinal], object], message: str
) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        call(points)
    assert re.search(message if "[" in message else re.escape(message), str(raised.value))


def test_an_unknown_parameter_is_named(points: Vicinal) -> None:
    for name in ("search", "count", "delete_where", "insert", "bulk_insert"):
        with pytest.raises(TypeError, match="filters"):
            getattr(points, name)(filters={"tenant": "a"})


def test_errors_of_a_batch_count_all_of_its_points(points: Vicinal) -> None:
    id = new_id()
    bad, same = NewPoint(vector=[1, 2, 3], content="bad"), NewPoint(vector=[1, 2], content="x", id=id)
    points.insert([1, 2], "first")
    stored = points.insert_valid([bad, same, bad, same])
    assert [error.index for error in stored.errors] == [0, 2, 3]
    assert str(stored.errors[2].error).startswith("vectors[3].id equals vectors[1].id")


def test_a_deleted_point_is_gone_and_deleting_it_again_is_no_error(points: Vicinal) -> None:
    id = points.insert([1, 2], "x")
    points.delete(id)
    with pytest.raises(NotFoundError) as raised:
        points.get(id)
    assert raised.value.reason == "not_found"
    assert str(raised.value) == "Point not found"
    points.delete(id)


def test_what_is_no_id_is_refused(points: Vicinal) -> None:
    for id in ("../health", "x y", ""):
        with pytest.raises(InvalidArgumentError):
            points.get(id or "%")


def test_a_key_stores_a_point_once(points: Vicinal) -> None:
    key = str(uuid.uuid4())
    id = points.insert([1, 2], "x", idempotency_key=key)
    assert points.insert([1, 2], "x", idempotency_key=key) == id
    assert points.insert([1, 2], "x") != id
    with pytest.raises(KeyReusedError):
        points.insert([1, 2], "y", idempotency_key=key)
    for wrong, fault in (("a\n", "may have only printable ASCII"), (5, "is a int: a text is needed")):
        with pytest.raises(InvalidArgumentError, match=f"idempotency-key {fault}"):
            points.insert([1, 2], "x", idempotency_key=wrong)  # type: ignore[arg-type]


def test_a_vector_of_another_length_is_refused_with_the_service_s_message(points: Vicinal) -> None:
    points.insert([1, 2], "x")
    with pytest.raises(InvalidArgumentError, match=r"3 dimensions, .* 2") as raised:
        points.insert([1, 2, 3], "y")
    assert raised.value.reason == "invalid_argument"
