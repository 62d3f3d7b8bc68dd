"""Points as columns: an array of vectors with parallel lists, or a data frame of pandas, Polars or Arrow."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from .errors import InvalidArgumentError
from .points import ContentType, NewPoint, OnConflict
from .values import Attributes, AttributeValue, check_text
from .vectors import MatrixLike, Vector, matrix_of


class Columns:
    """Points as columns: row i has `vectors[i]`, `contents[i]`, and so on. Slices are `Columns` without copies."""

    def __init__(
        self,
        vectors: MatrixLike,
        contents: Sequence[str],
        *,
        attributes: Sequence[Attributes | None] | None = None,
        ids: Sequence[str] | None = None,
        content_type: ContentType = "Text",
        on_conflict: OnConflict | None = None,
    ) -> None:
        self.vectors = matrix_of(vectors)
        self.contents: Sequence[str] = _list_of(contents)
        self.attributes: Sequence[Attributes | None] | None = None if attributes is None else _list_of(attributes)
        self.ids: Sequence[str] | None = None if ids is None else _list_of(ids)
        self.content_type: ContentType = content_type
        self.on_conflict: OnConflict | None = on_conflict
        for name, column in (("contents", self.contents), ("attributes", self.attributes), ("ids", self.ids)):
            if column is not None and len(column) != len(self.vectors):
                raise InvalidArgumentError(f"{name} has {len(column)} rows, vectors has {len(self.vectors)}")
        for row, content in enumerate(self.contents):
            check_text(content, f"contents[{row}]")

    @staticmethod
    def from_frame(
        frame: Any,
        *,
        vector: str,
        content: str,
        attributes: Iterable[str] = (),
        id: str | None = None,
        content_type: ContentType = "Text",
        on_conflict: OnConflict | None = None,
    ) -> Columns:
        """
        Return the rows of a pandas or Polars DataFrame or a pyarrow Table, selected by the names of their columns.

        Missing values (None, NaN, NaT, NA) become absent attributes. A row without a vector, content or id is refused;
        errors count the rows from 0.
        """
        named = {name: _list_of(_column(frame, name)) for name in attributes}
        rows = zip(*named.values(), strict=True)
        return Columns(
            _vectors_of(_column(frame, vector)),
            _list_of(_column(frame, content)),
            attributes=[_present(named.keys(), row) for row in rows] if named else None,
            ids=None if id is None else _ids_of(_list_of(_column(frame, id))),
            content_type=content_type,
            on_conflict=on_conflict,
        )

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: slice) -> Columns:
        part = copy.copy(self)
        part.vectors = self.vectors[rows]
        part.contents = self.contents[rows]
        part.attributes = None if self.attributes is None else self.attributes[rows]
        part.ids = None if self.ids is None else self.ids[rows]
        return part

    def rows(self) -> Iterator[NewPoint]:
        """Return the points one by one."""
        for row, content in enumerate(self.contents):
            yield NewPoint(
                vector=self.vectors[row],
                content=content,
                content_type=self.content_type,
                attributes=None if self.attributes is None else self.attributes[row],
                id=None if self.ids is None else self.ids[row],
                on_conflict=self.on_conflict,
            )


def _column(frame: Any, name: str) -> Any:
    column = frame[name]
    if getattr(column, "ndim", 1) != 1:
        raise InvalidArgumentError(f"the frame has {column.shape[1]} columns with the name {name!r}")
    return column


def _vectors_of(column: Any) -> MatrixLike:
    """Return a column of vectors. Arrow stores their numbers in one piece; a data frame has an object for each row."""
    if not hasattr(column, "to_pylist"):
        values: MatrixLike = column.to_numpy()
        return values
    parts: list[Vector] = []
    for part in getattr(column, "chunks", [column]):
        numbers = _numbers_of_arrow(part) if len(part) > 0 else None
        if numbers is not None and numbers.shape[1] == (parts or [numbers])[0].shape[1]:
            parts.append(numbers)
        elif len(part) > 0:
            # Slower, but an error names the row.
            return cast(MatrixLike, column.to_pylist())
    return np.concatenate(parts) if parts else np.empty((0, 0), np.float32)


def _numbers_of_arrow(array: Any) -> Vector | None:
    """Return the rows of an Arrow array of lists; None unless all have the same length, and nothing is missing."""
    array = getattr(array, "storage", array)
    if array.null_count > 0 or not hasattr(array, "flatten"):
        return None
    values = array.flatten()
    if not hasattr(values, "null_count"):
        return None
    dimension, rest = divmod(len(values), len(array))
    # Lists of fixed size have no offsets.
    offsets = array.offsets.to_numpy() if hasattr(array, "offsets") else [0, dimension]
    if rest != 0 or dimension == 0 or values.null_count > 0 or not (np.diff(offsets) == dimension).all():
        return None
    numbers = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(len(array), dimension) if numbers.dtype.kind in "fiub" else None


def _ids_of(values: list[Any]) -> list[str]:
    for row, value in enumerate(values):
        if _is_missing(value):
            raise InvalidArgumentError(f"ids[{row}] is missing")
    return [str(value) for value in values]


def _list_of(column: Any) -> list[Any]:
    """Return a column by the positions of its rows. A Series of pandas would be read by its labels."""
    if isinstance(column, list):
        return column
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            values: list[Any] = getattr(column, method)()
            return values
    return list(column)


def _present(names: Iterable[str], row: Iterable[Any]) -> dict[str, AttributeValue]:
    return {name: value for name, value in zip(names, row, strict=True) if not _is_missing(value)}


def _is_missing(value: Any) -> bool:
    # NaN and NaT differ from themselves; pandas' NA has no truth value to compare.
    if value is None or type(value).__name__ == "NAType":
        return True
    return not isinstance(value, np.ndarray) and bool(value != value)
