"""Vectors: anything that NumPy reads, as finite float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    return _floats(values, 1, name)


def matrix_of(values: MatrixLike, name: str = "vectors") -> Vector:
    """Return vectors, one per row; a float32 array is not copied."""
    return _floats(values, 2, name)


def _floats(values: VectorLike | MatrixLike, dimensions: int, name: str) -> Vector:
    try:
        if isinstance(values, np.ndarray) and values.dtype == np.float32:
            floats = np.ascontiguousarray(values)
        else:
            # A number beyond float32 becomes infinite and is refused below, so NumPy's warning is not needed.
            with np.errstate(over="ignore"):
                floats = np.ascontiguousarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{name} cannot be read as float32 numbers: {error}") from error
    if floats.ndim != dimensions:
        raise InvalidArgumentError(f"{name} has the shape {floats.shape}: {dimensions} axes are needed")
    finite = np.isfinite(floats)
    if not finite.all():
        place = "".join(f"[{index}]" for index in np.argwhere(~finite)[0])
        raise InvalidArgumentError(f"{name}{place} is not a finite float32 number")
    return floats
