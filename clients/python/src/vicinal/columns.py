"""Points as columns: an array of vectors with parallel lists, or a data frame of pandas, Polars or Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from .errors import InvalidArgumentError
from .points import ContentType, NewPoint, OnConflict
from .values import Attributes, AttributeValue
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
        self.contents = contents
        self.attributes = attributes
        self.ids = ids
        self.content_type: ContentType = content_type
        self.on_conflict: OnConflict | None = on_conflict
        for name, column in (("contents", contents), ("attributes", attributes), ("ids", ids)):
            if column is not None and len(column) != len(self.vectors):
                raise InvalidArgumentError(f"{name} has {len(column)} rows, vectors has {len(self.vectors)}")

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

        Missing values (None, NaN, NaT) become absent attributes.
        """
        named = {name: _list_of(frame[name]) for name in attributes}
        rows = zip(*named.values(), strict=True)
        return Columns(
            _matrix_of_column(frame[vector]),
            [str(text) for text in _list_of(frame[content])],
            attributes=[_present(named.keys(), row) for row in rows] if named else None,
            ids=None if id is None else [str(value) for value in _list_of(frame[id])],
            content_type=content_type,
            on_conflict=on_conflict,
        )

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: slice) -> Columns:
        return Columns(
            self.vectors[rows],
            self.contents[rows],
            attributes=None if self.attributes is None else self.attributes[rows],
            ids=None if self.ids is None else self.ids[rows],
            content_type=self.content_type,
            on_conflict=self.on_conflict,
        )

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


def _matrix_of_column(column: Any) -> Vector:
    """Return a column of vectors. Arrow stores their numbers in one piece; a data frame has an object for each row."""
    if hasattr(column, "combine_chunks"):
        numbers = column.combine_chunks().flatten().to_numpy()
        return matrix_of(numbers.reshape(len(column), -1))
    values = column.to_numpy()
    return matrix_of(np.stack(list(values)) if values.dtype == object else values)


def _list_of(column: Any) -> list[Any]:
    for method in ("to_pylist", "to_list"):
        if hasattr(column, method):
            return cast(list[Any], getattr(column, method)())
    return list(column)


def _present(names: Iterable[str], row: Iterable[Any]) -> dict[str, AttributeValue]:
    return {name: value for name, value in zip(names, row, strict=True) if not _is_missing(value)}


def _is_missing(value: Any) -> bool:
    # NaN and NaT differ from themselves; pandas' NA has no truth value to compare.
    if value is None or type(value).__name__ == "NAType":
        return True
    return not isinstance(value, np.ndarray) and bool(value != value)
