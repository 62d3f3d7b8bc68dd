"""What blocking and async bulk inserts share: dividing points into batches, and reporting progress."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sized
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .columns import Columns
from .points import NewPoint
from .vectors import Text

if TYPE_CHECKING:
    from tqdm import tqdm

Batch: TypeAlias = Columns | list[NewPoint]
Progress: TypeAlias = bool | Callable[[int], object]
"""True for a progress bar of tqdm, or a function that is called with the number of points just stored."""

BATCH_POINTS = 1_000
BATCH_BYTES = 8 * 2**20
"""Well below the 64 MiB that a request may have by default, because several batches are in memory at the same time."""

_BYTES_OF_COMPONENT = 11
_BYTES_OF_POINT = 150


class Batcher:
    """Collects points into batches that are bounded in points and, roughly, in bytes."""

    def __init__(self, points_max: int) -> None:
        self._points_max = points_max
        self._points: list[NewPoint] = []
        self._bytes = 0

    def add(self, point: NewPoint) -> Batch | None:
        """Add a point; return the batch if this point completes it."""
        self._points.append(point)
        self._bytes += _bytes_of(point)
        is_full = len(self._points) >= self._points_max or self._bytes >= BATCH_BYTES
        return self.rest() if is_full else None

    def rest(self) -> Batch | None:
        """Return the incomplete batch, if it has points."""
        batch, self._points, self._bytes = self._points, [], 0
        return batch or None


def batches_of(points: Columns | Iterable[NewPoint], points_max: int) -> Iterator[Batch]:
    """Yield batches of points; reads points only as batches are requested."""
    if isinstance(points, Columns):
        yield from _slices_of(points, points_max)
        return
    batcher = Batcher(points_max)
    for point in points:
        full = batcher.add(point)
        if full is not None:
            yield full
    rest = batcher.rest()
    if rest is not None:
        yield rest


def _slices_of(columns: Columns, points_max: int) -> Iterator[Columns]:
    dimension = columns.vectors.shape[1]
    rows = max(1, min(points_max, BATCH_BYTES // (dimension * _BYTES_OF_COMPONENT + _BYTES_OF_POINT)))
    for start in range(0, len(columns), rows):
        yield columns[start : start + rows]


class Keys:
    """
    The idempotency keys of the batches. With a prefix, the keys are the same each time. So an interrupted import can be
    repeated within a day, with the same points in the same batches, and stores only the missing points.
    """

    def __init__(self, prefix: str | None) -> None:
        self._prefix = prefix
        self._used = 0

    def next(self) -> str:
        """Return the key of the next batch."""
        if self._prefix is None:
            return str(uuid.uuid4())
        self._used += 1
        return f"{self._prefix}-{self._used}"


class ProgressBar:
    """Reports stored points to a function, to tqdm, or not at all."""

    def __init__(self, progress: Progress, points: object) -> None:
        self._bar: tqdm[Any] | None = None
        self._report: Callable[[int], object] | None = None
        if callable(progress):
            self._report = progress
        elif progress:
            self._bar = _bar_of(points)
            self._report = self._bar.update

    def counted(self, ids: list[str]) -> list[str]:
        """Report stored points, and return their ids."""
        if self._report is not None:
            self._report(len(ids))
        return ids

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def _bar_of(points: object) -> tqdm[Any]:
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm: pip install 'vicinal[progress]'") from error
    return tqdm(total=len(points) if isinstance(points, Sized) else None, unit="point")


def _bytes_of(point: NewPoint) -> int:
    attributes = len(repr(point.attributes)) if point.attributes else 0
    vector = point.vector
    if isinstance(vector, Text):
        target = len(vector.value)
    else:
        target = 0 if vector is None else _BYTES_OF_COMPONENT * np.size(vector)
    return _BYTES_OF_POINT + target + len(point.content) + attributes
