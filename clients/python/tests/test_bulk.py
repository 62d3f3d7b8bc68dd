from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from real_service import Service

from vicinal import (
    AlreadyExistsError,
    AsyncVicinal,
    Attributes,
    Columns,
    InvalidArgumentError,
    NewPoint,
    OnConflict,
    Vicinal,
)


def numbered(count: int) -> Iterator[NewPoint]:
    return (NewPoint(vector=[number, 1], content=str(number)) for number in range(count))


def contents(points: Vicinal, ids: list[str]) -> list[str | None]:
    return [points.get(id).content for id in ids]


def test_ids_come_in_the_order_of_the_points(points: Vicinal) -> None:
    batches = list(points.bulk_insert(numbered(25), batch_size=10))
    assert [len(ids) for ids in batches] == [10, 10, 5]
    assert contents(points, [id for ids in batches for id in ids]) == [str(number) for number in range(25)]


def test_no_more_points_are_taken_than_are_under_way(points: Vicinal) -> None:
    taken = 0

    def source() -> Iterator[NewPoint]:
        nonlocal taken
        for point in numbered(100):
            taken += 1
            yield point

    batches = points.bulk_insert(source(), batch_size=5, concurrency=2)
    assert taken == 0
    next(iter(batches))
    assert taken == 10


def test_progress_counts_stored_points(points: Vicinal) -> None:
    stored: list[int] = []
    ids = points.insert_all(numbered(25), batch_size=10, progress=stored.append)
    assert (len(ids), stored) == (25, [10, 10, 5])


def test_progress_can_be_a_bar(points: Vicinal, capfd: pytest.CaptureFixture[str]) -> None:
    columns = Columns(np.ones((25, 2)), ["x"] * 25)
    assert len(points.insert_all(columns, batch_size=10, progress=True)) == 25
    assert "25/25" in capfd.readouterr().err


def test_an_import_with_a_prefix_can_be_run_again(points: Vicinal) -> None:
    first = next(iter(points.bulk_insert(numbered(25), batch_size=10, concurrency=1, key_prefix="import-1")))
    ids = points.insert_all(numbered(25), batch_size=10, key_prefix="import-1")
    assert ids[:10] == first
    assert len(points.search([1, 1], "Cosine", limit=100, include=None).ids) == 25


def test_a_bad_batch_ends_the_import(points: Vicinal) -> None:
    def source() -> Iterator[NewPoint]:
        yield from numbered(10)
        yield NewPoint(vector=[1, 2, 3], content="bad")

    with pytest.raises(InvalidArgumentError, match="3 dimensions"):
        points.insert_all(source(), batch_size=10, concurrency=1)
    assert len(points.search([1, 1], "Cosine", limit=100, include=None).ids) == 10


def test_large_vectors_make_small_batches(points: Vicinal) -> None:
    rows = np.ones((30, 60_000), np.float32)
    batches = list(points.bulk_insert(Columns(rows, ["x"] * 30)))
    assert [len(ids) for ids in batches] == [12, 12, 6]
    point = NewPoint(vector=rows[0], content="x")
    assert [len(ids) for ids in points.bulk_insert([point] * 20)] == [12, 8]


def test_points_may_come_from_an_async_source(service: Service) -> None:
    async def source() -> AsyncIterator[NewPoint]:
        for point in numbered(25):
            yield point

    async def insert() -> list[int]:
        async with AsyncVicinal(service.url) as client:
            await client.collections.put("async-source")
            points = client.collection("async-source")
            return [len(ids) async for ids in points.bulk_insert(source(), batch_size=10)]

    assert asyncio.run(insert()) == [10, 10, 5]


def test_an_id_that_is_given_again_is_stored_last(points: Vicinal) -> None:
    ids = [str(uuid.uuid4()) for _ in range(3)]
    rows = [(ids[0], "old"), (ids[1], "x"), (ids[0].upper(), "newer"), (ids[2], "y"), (ids[0], "newest")]
    for batch_size in (1, 2, 10):
        for on_conflict, expected in (("replace", "newest"), ("skip", "old")):
            points.delete_where({}, everything=True)
            given = [
                NewPoint(vector=[1, 2], content=content, id=id, on_conflict=cast(OnConflict, on_conflict))
                for id, content in rows
            ]
            assert points.insert_all(given, batch_size=batch_size) == [id.lower() for id, _ in rows]
            assert points.get(ids[0]).content == expected
    columns = Columns(
        np.ones((5, 2)), [content for _, content in rows], ids=[id for id, _ in rows], on_conflict="replace"
    )
    points.insert_all(columns, batch_size=2)
    assert points.get(ids[0]).content == "newest"


def test_nothing_of_a_batch_is_stored_if_an_id_exists_and_its_key_can_be_used_again(points: Vicinal) -> None:
    ids = [str(uuid.uuid4()) for _ in range(4)]
    given = [NewPoint(vector=[1, 2], content="x", id=id) for id in ids]
    points.insert([1, 2], "stored before", id=ids[2])
    for batch in (given, Columns(np.ones((4, 2)), ["x"] * 4, ids=ids)):
        with pytest.raises(AlreadyExistsError, match=r"^vectors\[2\]\.id: there is a point with the id"):
            points.insert_all(batch, key_prefix="of ids")
        assert points.count() == 1
    points.delete(ids[2])
    assert points.insert_all(given, key_prefix="of ids") == ids


def test_batches_with_the_same_id_are_not_under_way_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch waits for a second one, which must not come before the first one is done."""
    second = threading.Event()
    stored: list[str | None] = []

    def insert(_: Vicinal, batch: list[NewPoint], *, idempotency_key: str) -> list[str]:
        if batch[0].content == "old":
            second.wait(0.3)
        else:
            second.set()
        stored.append(batch[0].content)
        return ["an id"]

    async def insert_async(_: AsyncVicinal, batch: list[NewPoint], *, idempotency_key: str) -> list[str]:
        return await asyncio.to_thread(insert, Vicinal(), batch, idempotency_key=idempotency_key)

    monkeypatch.setattr(Vicinal, "insert_batch", insert)
    monkeypatch.setattr(AsyncVicinal, "insert_batch", insert_async)
    given = [NewPoint(vector=[1], content=content, id="an id") for content in ("old", "new")]
    Vicinal().insert_all(given, batch_size=1)
    second.clear()
    asyncio.run(AsyncVicinal().insert_all(given, batch_size=1))
    assert stored == ["old", "new", "old", "new"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (NewPoint(vector=[1, 2, 3], content="bad"), r"^vectors\[17\]\.vector has 3 dimensions"),
        (NewPoint(vector=[1, float("nan")], content="bad"), r"^vectors\[17\]\.vector\[1\] is not a finite"),
        (NewPoint(vector=[1, 2], content="bad", attributes={"a": 2**60}), r"^vectors\[17\]\.attributes\.a is"),
        (NewPoint(vector=[1, 2], content="bad", id="x"), r"^vectors\[17\]\.id"),
        ({"vector": [1, 2], "content": "bad"}, r"^vectors\[17\] is a dict: a NewPoint is needed"),
    ],
)
def test_an_error_names_the_point_among_all_points(points: Vicinal, bad: NewPoint, message: str) -> None:
    given = [*numbered(17), bad, *numbered(7)]
    with pytest.raises(InvalidArgumentError, match=message):
        points.insert_all(given, batch_size=10)
    attributes: list[Attributes] = [{"n": 2**60 if row == 17 else row} for row in range(25)]
    columns = Columns(np.ones((25, 2)), ["x"] * 25, attributes=attributes)
    with pytest.raises(InvalidArgumentError, match=r"^vectors\[17\]\.attributes\.n is"):
        points.insert_all(columns, batch_size=10)


def test_large_contents_make_small_batches(points: Vicinal) -> None:
    texts = ["é" * 2**20] * 7
    assert [len(ids) for ids in points.bulk_insert(Columns(np.ones((7, 2)), texts))] == [3, 3, 1]
    small, large = NewPoint(vector=[1, 2], content="x"), NewPoint(vector=[1, 2], content="x" * 9 * 2**20)
    assert [len(ids) for ids in points.bulk_insert([small, large, small, small])] == [1, 1, 2]


def test_columns_come_from_a_table(points: Vicinal) -> None:
    vectors = [[1.0, 0.5], [2.0, 0.25]]
    table = pa.table(
        {
            "embedding": pa.array(vectors, pa.list_(pa.float32(), 2)),
            "text": ["a", "b"],
            "price": [9.5, None],
        }
    )
    columns = Columns.from_frame(table, vector="embedding", content="text", attributes=["price"])
    assert columns.vectors.tolist() == vectors
    assert list(columns.attributes or []) == [{"price": 9.5}, {}]
    frame = table.to_pandas()
    again = Columns.from_frame(frame, vector="embedding", content="text", attributes=["price"])
    assert again.vectors.tolist() == vectors
    assert list(again.attributes or []) == [{"price": 9.5}, {}]
    plain = Columns.from_frame(frame, vector="embedding", content="text")
    assert contents(points, points.insert_batch(plain)) == ["a", "b"]


LISTS = pa.list_(pa.float32())
PAIRS = pa.list_(pa.float32(), 2)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[9, 9], [1, 2], [3, 4]], LISTS).slice(1),
        pa.array([[9, 9], [1, 2], [3, 4], [9, 9]], PAIRS).slice(1, 2),
        pa.array([None, [1, 2], [3, 4]], LISTS).slice(1),
        pa.array([None, [1, 2], [3, 4]], PAIRS).slice(1),
        pa.chunked_array([pa.array([[1, 2]], LISTS), pa.array([], LISTS), pa.array([[3, 4]], LISTS)]),
        pa.array([[1, 2], [3, 4]], pa.large_list(pa.int16())),
    ],
)
def test_rows_of_arrow_stay_where_they_are(column: Any) -> None:
    table = pa.table({"v": column, "c": ["a", "b"]})
    assert Columns.from_frame(table, vector="v", content="c").vectors.tolist() == [[1, 2], [3, 4]]
    for batch in table.to_batches()[:1]:
        assert Columns.from_frame(batch, vector="v", content="c").vectors.tolist()[0] == [1, 2]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1], [2, 3], [4, 5, 6]], LISTS), r"vectors\[1\] has 2 components, vectors\[0\] has 1"),
        (pa.array([[1, 2], None, [3, 4]], LISTS), r"vectors\[1\] is None"),
        (pa.array([[1, 2], None, [3, 4]], PAIRS), r"vectors\[1\] is None"),
        (pa.array([[1, 2], [3, 4], [5, None]], LISTS), r"vectors\[2\]\[1\] is None"),
        (pa.array([[1, 2], [3, 4], [5, float("nan")]], LISTS), r"vectors\[2\]\[1\] is not a finite"),
        (
            pa.chunked_array([pa.array([[1, 2], [3, 4]], LISTS), pa.array([[5]], LISTS)]),
            r"vectors\[2\] has 1 components",
        ),
        (pa.array([["1", "2"]] * 3), r"vectors\[0\]\[0\] is '1'"),
        (pa.array([1.0, 2.0, 3.0]), r"shape \(3,\)"),
    ],
)
def test_a_row_without_a_vector_of_the_same_length_is_named(column: Any, message: str) -> None:
    table = pa.table({"v": column, "c": ["a", "b", "c"]})
    for frame in (table, table.to_pandas()):
        with pytest.raises(InvalidArgumentError, match=message.replace("is None", "is (None|not a finite)")):
            Columns.from_frame(frame, vector="v", content="c")


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT, 5, b"x"])
def test_a_row_without_a_text_is_named(missing: object) -> None:
    frame = pd.DataFrame({"v": [[1, 2], [3, 4]], "c": pd.Series(["a", missing], dtype=object)})
    with pytest.raises(InvalidArgumentError, match=r"contents\[1\] is "):
        Columns.from_frame(frame, vector="v", content="c")
    frame["i"] = frame.pop("c")
    frame["c"] = "x"
    if not isinstance(missing, int | bytes):
        with pytest.raises(InvalidArgumentError, match=r"ids\[1\] is missing"):
            Columns.from_frame(frame, vector="v", content="c", id="i")


def test_two_columns_with_one_name_are_refused() -> None:
    frame = pd.DataFrame([[[1], "a", "b"]], columns=["v", "c", "c"])
    with pytest.raises(InvalidArgumentError, match="2 columns with the name 'c'"):
        Columns.from_frame(frame, vector="v", content="c")


def test_a_series_is_read_by_position_and_not_by_label() -> None:
    frame = pd.DataFrame({"v": [[0], [1], [2]], "c": ["0", "1", "2"], "a": [{"n": 0}, {"n": 1}, {"n": 2}]})
    frame = frame.iloc[[2, 0, 1]]
    columns = Columns(frame["v"], frame["c"], attributes=frame["a"])  # type: ignore[arg-type]
    assert [(point.content, point.attributes) for point in columns.rows()] == [
        ("2", {"n": 2}),
        ("0", {"n": 0}),
        ("1", {"n": 1}),
    ]


def test_masked_values_are_not_read() -> None:
    masked = np.ma.array([[1.0, 2], [3, 4]], mask=[[False, False], [False, True]])
    for vectors in (masked, masked.astype(np.float32), list(masked)):
        with pytest.raises(InvalidArgumentError, match=r"vectors\[1\]\[1\] is masked"):
            Columns(vectors, ["a", "b"])
    assert Columns(np.ma.array([[1.0, 2]]), ["a"]).vectors.tolist() == [[1, 2]]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="contents has 1 rows, vectors has 2"):
        Columns(np.ones((2, 2)), ["x"])
