"""Batches of inserts. Bulk loads spend their time here, so vectors and ids are not processed one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..columns import Columns
from ..point_operations import Points
from ..points import write_each
from .messages import beside_vector, new_point
from .values import read_point_id
from .wire import fields, head, message, read_bytes

_ID_HEAD = np.frombuffer(head(1, 40) + head(1, 38) + head(1, 36), np.uint8)
"""The bytes before the 36 characters of an assigned id: the heads of the answer's field, its PointID and its UUID."""
_ID_CHARACTERS = 36


def batch_message(points: Points) -> bytes:
    """Return the points of an InsertVectorsBatchRequest."""
    if isinstance(points, Columns):
        return b"".join(_parts_of(points))
    return b"".join(message(1, point) for point in write_each(points, new_point))


def _parts_of(columns: Columns) -> Iterator[bytes | memoryview]:
    """Yield the pieces of the message. The pieces with vectors are views of the array, not copies."""
    if len(columns) == 0:
        return
    vectors = columns.vectors.astype("<f4", copy=False).data.cast("B")
    width = len(vectors) // len(columns)
    packed = head(1, width)
    before = head(1, len(packed) + width) + packed
    for row, after in enumerate(write_each(columns.rows(), beside_vector)):
        yield head(1, len(before) + width + len(after))
        yield before
        yield vectors[row * width : (row + 1) * width]
        yield after


def read_ids(answer: bytes) -> list[str]:
    """Return the ids of an InsertVectorsBatchResponse without errors."""
    length = len(_ID_HEAD) + _ID_CHARACTERS
    if len(answer) % length == 0:
        rows = np.frombuffer(answer, np.uint8).reshape(-1, length)
        if (rows[:, : len(_ID_HEAD)] == _ID_HEAD).all():
            characters = rows[:, len(_ID_HEAD) :].tobytes().decode("ascii")
            return [characters[at : at + _ID_CHARACTERS] for at in range(0, len(characters), _ID_CHARACTERS)]
    # The fields have other lengths, which another version of the service may send.
    return [read_point_id(read_bytes(value)) for number, value in fields(answer) if number == 1]
