"""The bytes of protobuf messages. A message is the concatenation of its fields; an empty one has no fields."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from ..errors import InternalError, InvalidArgumentError
from ..vectors import Vector

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

_CUT_OFF = "the answer is cut off"
_DIGITS = tuple(bytes([value]) for value in range(0x80))
"""Nearly every key and most lengths are varints of one byte, which are precomputed."""

WireValue: TypeAlias = int | bytes
"""A varint, or the bytes of anything else."""


def message(number: int, content: bytes) -> bytes:
    """Return a field with a message. An empty message is written, too, because it counts as present."""
    return head(number, len(content)) + content


def head(number: int, length: int) -> bytes:
    """Return the head of a field with a message of this length."""
    return _key(number, _LENGTH) + varint(length)


def text(number: int, value: str) -> bytes:
    """Return a field with a text, even if it is empty."""
    return message(number, value.encode())


def texts(number: int, values: Iterable[str]) -> bytes:
    """Return a repeated text."""
    return b"".join(text(number, value) for value in values)


def unsigned(number: int, value: int) -> bytes:
    """Return a field with a whole number, even if it is 0."""
    if not 0 <= value < 2**64:
        raise InvalidArgumentError(f"{value} is not a whole number from 0 to 2^64 - 1")
    return _key(number, _VARINT) + varint(value)


def signed(number: int, value: int) -> bytes:
    """Return a field with an int64."""
    return unsigned(number, value % 2**64)


def flag(number: int, value: bool) -> bytes:
    """Return a field with a truth value, even if it is false."""
    return unsigned(number, int(value))


def double(number: int, value: float) -> bytes:
    """Return a field with a float64."""
    return _key(number, _FIXED64) + struct.pack("<d", value)


def floats(number: int, values: Vector) -> bytes:
    """Return a packed field of float32."""
    return message(number, values.astype("<f4", copy=False).tobytes())


def varint(value: int) -> bytes:
    """Return a number as a varint: in base 128, the lowest digit first."""
    if value < 0x80:
        return _DIGITS[value]
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def fields(data: bytes) -> list[tuple[int, WireValue]]:
    """Return the fields of a message in their order, by number."""
    # An answer of ten hits has some 150 fields. Nearly all their varints have one byte, and are read in place.
    found: list[tuple[int, WireValue]] = []
    at, end = 0, len(data)
    try:
        while at < end:
            key = data[at]
            at += 1
            if key > 0x7F:
                key, at = read_varint(data, at - 1)
            kind = key & 7
            if kind == _VARINT:
                number, at = read_varint(data, at)
                found.append((key >> 3, number))
                continue
            if kind == _LENGTH:
                length = data[at]
                at += 1
                if length > 0x7F:
                    length, at = read_varint(data, at - 1)
            else:
                length = _fixed_length(kind)
            start, at = at, at + length
            if at > end:
                raise InternalError(_CUT_OFF)
            found.append((key >> 3, data[start:at]))
    except IndexError as error:
        raise InternalError(_CUT_OFF) from error
    return found


def read_unsigned(value: WireValue) -> int:
    """Return a whole number."""
    if isinstance(value, int):
        return value
    raise InternalError("the answer has bytes where a number belongs")


def read_signed(value: WireValue) -> int:
    """Return an int64."""
    number = read_unsigned(value)
    return number - 2**64 if number >= 2**63 else number


def read_bytes(value: WireValue) -> bytes:
    """Return the content of a message or text."""
    if isinstance(value, bytes):
        return value
    raise InternalError("the answer has a number where bytes belong")


def read_text(value: WireValue) -> str:
    """Return a text."""
    return read_bytes(value).decode()


def read_double(value: WireValue) -> float:
    """Return a float64."""
    number: float = struct.unpack("<d", read_bytes(value))[0]
    return number


def read_floats(value: WireValue) -> Vector:
    """Return a packed field of float32."""
    return np.frombuffer(read_bytes(value), "<f4").astype(np.float32)


def _key(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def _fixed_length(kind: int) -> int:
    if kind == _FIXED64:
        return 8
    if kind == _FIXED32:
        return 4
    raise InternalError(f"the answer has a field of the unknown wire type {kind}")


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at this position, and the position after it."""
    digit = data[at]
    at += 1
    value, shift = digit & 0x7F, 7
    while digit > 0x7F:
        if shift == 70:
            raise InternalError("the answer has a number that does not end")
        digit = data[at]
        at += 1
        value |= (digit & 0x7F) << shift
        shift += 7
    return value, at
