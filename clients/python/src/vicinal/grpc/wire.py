"""The bytes of protobuf messages. A message is the concatenation of its fields; an empty one is absent fields only."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np

from ..errors import InternalError, InvalidArgumentError
from ..vectors import Vector

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

_DIGITS = tuple(bytes([value]) for value in range(0x80))
"""Nearly every key and most lengths are numbers of one digit: they are not computed again."""

WireValue: TypeAlias = int | memoryview
"""A varint, or the bytes of anything else."""


def message(number: int, content: bytes) -> bytes:
    """Return a field with a message, also if it is empty: it is present then."""
    return head(number, len(content)) + content


def head(number: int, length: int) -> bytes:
    """Return what a field with a message of this length begins with."""
    return _key(number, _LENGTH) + varint(length)


def text(number: int, value: str) -> bytes:
    """Return a field with a text, also if it is empty."""
    return message(number, value.encode())


def texts(number: int, values: Iterable[str]) -> bytes:
    """Return a repeated text."""
    return b"".join(text(number, value) for value in values)


def unsigned(number: int, value: int) -> bytes:
    """Return a field with a whole number, also if it is 0."""
    if not 0 <= value < 2**64:
        raise InvalidArgumentError(f"{value} is not a whole number from 0 to 2^64 - 1")
    return _key(number, _VARINT) + varint(value)


def signed(number: int, value: int) -> bytes:
    """Return a field with an int64."""
    return unsigned(number, value % 2**64)


def flag(number: int, value: bool) -> bytes:
    """Return a field with a truth value, also if it is false."""
    return unsigned(number, int(value))


def double(number: int, value: float) -> bytes:
    """Return a field with a float64."""
    return _key(number, _FIXED64) + struct.pack("<d", value)


def floats(number: int, values: Vector) -> bytes:
    """Return a packed field of float32."""
    return message(number, values.astype("<f4", copy=False).tobytes())


def varint(value: int) -> bytes:
    """Return a number in base 128, the lowest digit first."""
    if value < 0x80:
        return _DIGITS[value]
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def fields(data: memoryview) -> Iterator[tuple[int, WireValue]]:
    """Return the fields of a message in their order, by number."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield key >> 3, value
            continue
        if kind == _LENGTH:
            length, at = _read_varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise InternalError(f"the answer has a field of the unknown wire type {kind}")
        end = at + length
        if end > len(data):
            raise InternalError("the answer is cut off")
        yield key >> 3, data[at:end]
        at = end


def read_unsigned(value: WireValue) -> int:
    """Return a whole number."""
    if isinstance(value, int):
        return value
    raise InternalError("the answer has bytes where a number belongs")


def read_signed(value: WireValue) -> int:
    """Return an int64."""
    number = read_unsigned(value)
    return number - 2**64 if number >= 2**63 else number


def read_bytes(value: WireValue) -> memoryview:
    """Return the content of a message or text."""
    if isinstance(value, memoryview):
        return value
    raise InternalError("the answer has a number where bytes belong")


def read_text(value: WireValue) -> str:
    """Return a text."""
    return str(read_bytes(value), "utf-8")


def read_double(value: WireValue) -> float:
    """Return a float64."""
    number: float = struct.unpack("<d", read_bytes(value))[0]
    return number


def read_floats(value: WireValue) -> Vector:
    """Return a packed field of float32."""
    return np.frombuffer(read_bytes(value), "<f4").astype(np.float32)


def _key(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = shift = 0
    while at < len(data) and shift < 70:
        digit = data[at]
        at += 1
        value |= (digit & 0x7F) << shift
        if digit < 0x80:
            return value, at
        shift += 7
    raise InternalError("the answer has a number that does not end")
