from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import numpy as np
import pyarrow as pa
import pytest
from real_service import Service

from vicinal import AsyncVicinal, Columns, InvalidArgumentError, NewPoint, Vicinal


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
    assert [len(ids) for ids in points.bulk_insert([point] * 20)] == [13, 7]


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


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="contents has 1 rows, vectors has 2"):
        Columns(np.ones((2, 2)), ["x"])
