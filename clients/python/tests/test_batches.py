from __future__ import annotations

import uuid

import numpy as np
import pytest

from vicinal import Attributes, Columns
from vicinal.errors import InternalError
from vicinal.grpc.batches import batch_message, read_ids
from vicinal.grpc.values import point_id
from vicinal.grpc.wire import message, text
from vicinal.operation import Place
from vicinal.point_operations import InsertBatch

ATTRIBUTES: list[Attributes | None] = [{"price": 1.5, "tags": ["a"]}, None, {}]
IDS = [str(uuid.UUID(int=number)) for number in range(3)]


@pytest.mark.parametrize("dimension", [1, 31, 32, 5000])
@pytest.mark.parametrize("is_plain", [True, False])
def test_columns_become_the_same_bytes_as_their_points_one_by_one(dimension: int, *, is_plain: bool) -> None:
    vectors = np.random.default_rng(3).normal(size=(6, dimension)).astype(np.float32)[::2]
    contents = ["", "a café", "x" * 300]
    columns = (
        Columns(vectors, contents)
        if is_plain
        else Columns(vectors, contents, attributes=ATTRIBUTES, ids=IDS, on_conflict="skip", content_type="Image")
    )
    assert batch_message(columns) == batch_message(list(columns.rows()))
    assert InsertBatch(Place(), columns, idempotency_key="k").request() == (
        InsertBatch(Place(), list(columns.rows()), idempotency_key="k").request()
    )


def test_no_columns_become_no_bytes() -> None:
    assert batch_message(Columns(np.empty((0, 4)), [])) == b""


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_ids_are_read_at_once(count: int) -> None:
    ids = [str(uuid.uuid4()) for _ in range(count)]
    assert read_ids(b"".join(message(1, point_id(id)) for id in ids)) == ids


def test_ids_are_read_one_by_one_if_the_answer_has_an_unusual_layout() -> None:
    usual = message(1, point_id(IDS[0]))
    # A field that this version does not know, as long as an id.
    unknown = message(7, bytes(len(usual) - 2))
    assert read_ids(usual + unknown) == [IDS[0]]
    longer = message(1, message(1, text(1, IDS[1]) + text(2, "?")))
    assert read_ids(usual + longer) == IDS[:2]


def test_an_answer_that_is_cut_off_is_an_error() -> None:
    with pytest.raises(InternalError, match="cut off"):
        read_ids(message(1, point_id(IDS[0]))[:-1])
