"""What blocking and async bulk inserts share: dividing points into batches, and reporting progress."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .columns import Columns
from .errors import InvalidArgumentError, VicinalError
from .points import NewPoint
from .values import Attributes
from .vectors import Text

if TYPE_CHECKING:
    from tqdm import tqdm

Progress: TypeAlias = bool | Callable[[int], object]
"""True for a progress bar of tqdm, or a function that is called with the number of points just stored."""

BATCH_POINTS = 1_000
BATCH_BYTES = 8 * 2**20
"""Well below the 64 MiB that a request may have by default, because several batches are in memory at the same time."""

_INDEX = re.compile(r"\bvectors\[([0-9]+)\]")
_BYTES_OF_COMPONENT = 11
_BYTES_OF_POINT = 150


@dataclass(frozen=True, slots=True)
class Batch:
    """Some of the points of a call, and the number of those before them."""

    points: Columns | list[NewPoint]
    start: int
    ids: set[str]

    @property
    def may_be_refused(self) -> bool:
        """Whether ids must not exist yet."""
        if isinstance(self.points, Columns):
            return self.points.ids is not None and self.points.on_conflict in (None, "error")
        return any(point.id is not None and point.on_conflict in (None, "error") for point in self.points)

    def named(self, error: VicinalError) -> VicinalError:
        """Return an error of this batch that names a point by its index in the whole call."""
        message = _INDEX.sub(lambda found: f"vectors[{self.start + int(found[1])}]", error.message)
        return type(error)(message, retry_after=error.retry_after)


def is_undecidable(error: InvalidArgumentError) -> bool:
    """
    Whether a cluster has refused a batch of all or nothing because no node can decide about all of its ids. The error
    has no reason of its own, because to all other callers it is one of many faults of a request. So the start of its
    message tells, which names the field.
    """
    return error.message.startswith('on_error is "abort"')


class _Filling:
    """
    What is known of a batch while it is filled. It ends before an id that it has already, because the service refuses
    an id that a request has twice.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.count = 0
        self.ids: set[str] = set()
        self._bytes = 0

    def takes(self, bytes: int, id: str | None, points_max: int) -> bool:
        """Add a point, if the batch has room for it. An empty batch takes any point."""
        key = None if id is None else str(id).lower()
        if self.count > 0 and (
            self.count >= points_max or self._bytes + bytes > BATCH_BYTES or (key is not None and key in self.ids)
        ):
            return False
        self.count += 1
        self._bytes += bytes
        if key is not None:
            self.ids.add(key)
        return True


class Batcher:
    """Collects points into batches that are bounded in points and, roughly, in bytes."""

    def __init__(self, points_max: int) -> None:
        self._points_max = points_max
        self._points: list[NewPoint] = []
        self._filling = _Filling(0)

    def add(self, point: NewPoint) -> Batch | None:
        """Add a point; return a batch if this point completes it, or does not fit into it."""
        if not isinstance(point, NewPoint):
            index = self._filling.start + self._filling.count
            raise InvalidArgumentError(f"vectors[{index}] is a {type(point).__name__}: a NewPoint is needed")
        size = _bytes_of(point)
        complete = None
        if not self._filling.takes(size, point.id, self._points_max):
            complete = self.rest()
            self._filling.takes(size, point.id, self._points_max)
        self._points.append(point)
        return self.rest() if len(self._points) >= self._points_max else complete

    def rest(self) -> Batch | None:
        """Return the incomplete batch, if it has points."""
        if not self._points:
            return None
        batch = Batch(self._points, self._filling.start, self._filling.ids)
        self._points, self._filling = [], _Filling(batch.start + len(batch.points))
        return batch


def batches_of(points: Columns | Iterable[NewPoint], points_max: int) -> Iterator[Batch]:
    """Yield batches of points; reads points only as batches are requested."""
    if isinstance(points, Columns):
        yield from _slices_of(points, points_max)
        return
    batcher = Batcher(points_max)
    for point in points:
        complete = batcher.add(point)
        if complete is not None:
            yield complete
    rest = batcher.rest()
    if rest is not None:
        yield rest


def _slices_of(columns: Columns, points_max: int) -> Iterator[Batch]:
    filling = _Filling(0)
    vector_bytes = _BYTES_OF_COMPONENT * columns.vectors.shape[1]
    for row, content in enumerate(columns.contents):
        attributes = None if columns.attributes is None else columns.attributes[row]
        id = None if columns.ids is None else columns.ids[row]
        size = vector_bytes + _bytes_beside(content, attributes)
        if not filling.takes(size, id, points_max):
            yield Batch(columns[filling.start : row], filling.start, filling.ids)
            filling = _Filling(row)
            filling.takes(size, id, points_max)
    if filling.count > 0:
        yield Batch(columns[filling.start :], filling.start, filling.ids)


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
    vector = point.vector
    if isinstance(vector, Text):
        target = _text_bytes(vector.value)
    else:
        target = 0 if vector is None else _BYTES_OF_COMPONENT * np.size(vector)
    return target + _bytes_beside(point.content, point.attributes)


def _bytes_beside(content: str, attributes: Attributes | None) -> int:
    return _BYTES_OF_POINT + _text_bytes(content) + (_text_bytes(repr(attributes)) if attributes else 0)


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
