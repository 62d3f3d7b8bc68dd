"""Vectors: anything that NumPy reads as numbers, as finite float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidArgumentError
from .values import Json

Vector: TypeAlias = NDArray[np.float32]
"""A stored vector: exactly the components that the service keeps."""

VectorLike: TypeAlias = NDArray[Any] | Sequence[float]
"""What can be passed as a vector; its components are rounded to float32."""

MatrixLike: TypeAlias = NDArray[Any] | Sequence[VectorLike]
"""Vectors of the same length, one per row."""

_NUMBERS = "fiub"
"""NumPy's kinds of numbers; booleans are 0 and 1."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text in place of a vector, for a service with embeddings: it embeds the text."""

    value: str


def json_of_vector(vector: VectorLike | Text | None) -> dict[str, Json]:
    """Return the field for a vector or for a text to embed; no field for None."""
    if vector is None:
        return {}
    return {"text": vector.value} if isinstance(vector, Text) else {"vector": vector_of(vector)}


def vector_of(values: VectorLike, name: str = "vector") -> Vector:
    """Return one vector; a float32 array is not copied."""
    array = _array_of(values, name)
    if array.dtype.kind == "O":
        array = _numbers_of(array, name)
    return _floats(array, 1, name)


def matrix_of(values: MatrixLike, name: str = "vectors") -> Vector:
    """Return vectors, one per row; a float32 array is not copied."""
    if not isinstance(values, list | tuple):
        array = _array_of(values, name)
        if array.ndim == 0 or array.dtype.kind in _NUMBERS:
            return _floats(array, 2, name)
        return _stacked(list(array), name)
    # NumPy drops the mask of an array in a list.
    if any(isinstance(row, np.ma.MaskedArray) for row in values):
        return _stacked(values, name)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        return _stacked(values, name)
    return _floats(array, 2, name) if array.dtype.kind in _NUMBERS else _stacked(values, name)


def _stacked(values: Sequence[VectorLike], name: str) -> Vector:
    """Return vectors that are read one by one, so that an error names the row."""
    rows = [vector_of(row, f"{name}[{index}]") for index, row in enumerate(values)]
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InvalidArgumentError(
                f"{name}[{index}] has {len(row)} components, {name}[0] has {len(rows[0])}: all need the same number"
            )
    return np.stack(rows)


def _array_of(values: object, name: str) -> NDArray[Any]:
    """Return an array of numbers, or of objects that may be numbers."""
    if isinstance(values, np.ma.MaskedArray):
        masked = np.argwhere(np.ma.getmaskarray(values))
        if len(masked):
            raise _not_numbers(f"{name}{_place(masked[0])} is masked", name)
        values = np.ma.getdata(values)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _not_numbers(str(error), name) from error
    if array.dtype.kind in _NUMBERS or array.dtype.kind == "O":
        return array
    if array.dtype.kind in "mM":
        raise _not_numbers(f"{array.dtype} is not a number", name)
    # NumPy would read "1.5" as a number, and drop the imaginary part of 1j.
    return np.asarray(values, object)


def _numbers_of(array: NDArray[Any], name: str) -> NDArray[Any]:
    for index, value in np.ndenumerate(array):
        if not isinstance(value, Real | Decimal | np.bool_):
            shown = repr(value)
            shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
            raise _not_numbers(f"{name}{_place(index)} is {shown}", name)
    try:
        return array.astype(np.float64)
    except OverflowError as error:
        raise _not_numbers(str(error), name) from error


def _floats(array: NDArray[Any], dimensions: int, name: str) -> Vector:
    if array.ndim != dimensions:
        raise InvalidArgumentError(f"{name} has the shape {array.shape}: {dimensions} axes are needed")
    # A number beyond float32 becomes infinite and is refused below, so NumPy's warning is not needed.
    with np.errstate(over="ignore"):
        floats = np.ascontiguousarray(array, dtype=np.float32)
    finite = np.isfinite(floats)
    if not finite.all():
        raise InvalidArgumentError(f"{name}{_place(np.argwhere(~finite)[0])} is not a finite float32 number")
    return floats


def _place(indexes: Sequence[int] | NDArray[Any]) -> str:
    return "".join(f"[{index}]" for index in indexes)


def _not_numbers(fault: str, name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name} cannot be read as float32 numbers: {fault}")
