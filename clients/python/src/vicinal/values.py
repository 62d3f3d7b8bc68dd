"""Attributes: named values in addition to a point's content, and the JSON of those types that JSON does not have."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, cast

import numpy as np
import orjson

from .errors import InternalError, InvalidArgumentError

INTEGER_MAX = 2**53
"""Numbers are float64 in the service; beyond this limit, not every integer can be represented."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class GeoPoint:
    """A place on the Earth in degrees: latitude -90..90, longitude -180..180."""

    lat: float
    lon: float


Scalar: TypeAlias = str | int | float | bool | datetime | GeoPoint
AttributeValue: TypeAlias = "Scalar | Sequence[AttributeValue] | Mapping[str, AttributeValue]"
Attributes: TypeAlias = Mapping[str, AttributeValue]
"""Values by name. A `datetime` needs a time zone; None stands for an absent value."""

Json: TypeAlias = Any
"""What orjson reads or writes."""


def microseconds(moment: datetime) -> int:
    """Return a moment in microseconds since 1970."""
    # Subclasses such as pendulum's return another type than timedelta.
    return datetime.__sub__(moment, _EPOCH) // _MICROSECOND


def moment_of(us: int) -> datetime:
    """Return the moment of a number of microseconds since 1970."""
    return _EPOCH + us * _MICROSECOND


def encode_value(value: object, path: str) -> Json:
    """Return the JSON of a value; `path` is its path in messages."""
    match value:
        case str():
            return check_text(value, path)
        case None | bool():
            return value
        case int():
            if abs(value) > INTEGER_MAX:
                raise InvalidArgumentError(f"{path} is {value}: integers beyond 2^53 would be rounded")
            return value
        case float():
            if not math.isfinite(value):
                raise InvalidArgumentError(f"{path} is {value}: numbers must be finite")
            return value
        case datetime():
            return {"$date": encode_moment(value, path)}
        case GeoPoint(lat, lon):
            return {"$geo": {"lat": encode_value(lat, f"{path}.lat"), "lon": encode_value(lon, f"{path}.lon")}}
        # NumPy converts some times to plain numbers, and long doubles to themselves.
        case np.generic() | np.ndarray() if value.dtype.char not in "mMgG":
            return encode_value(value.tolist(), path)
        case Mapping():
            return {name_of(key, path): encode_value(item, f"{path}.{key}") for key, item in value.items()}
        case bytes() | bytearray() | memoryview():
            # Sequences of numbers, but surely not meant as such.
            pass
        case Sequence() | set() | frozenset():
            return [encode_value(item, f"{path}[{index}]") for index, item in enumerate(value)]
    raise InvalidArgumentError(f"{path} is a {type(value).__name__}, which cannot be an attribute value")


def decode_value(value: Json) -> AttributeValue:
    """Return the value that `encode_value` wrote."""
    match value:
        case {"$date": str(text), **rest} if not rest:
            return decode_moment(text)
        case {"$geo": {"lat": lat, "lon": lon}, **rest} if not rest:
            return GeoPoint(lat, lon)
        case dict():
            return {key: decode_value(item) for key, item in value.items()}
        case list():
            return [decode_value(item) for item in value]
    scalar: str | int | float | bool = value
    return scalar


def decode_attributes(attributes: Json) -> dict[str, AttributeValue]:
    """Return a point's attributes."""
    return {key: decode_value(item) for key, item in attributes.items()}


def check_text(value: object, path: str) -> str:
    """Return a text, or refuse a value that is not a text of UTF-8."""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{path} is {value!r}: a text is needed")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(f"{path} has half of a surrogate pair, which UTF-8 cannot hold") from error
    return value


def name_of(key: object, path: str) -> str:
    """Return a name as a plain text. For a name from an enum, `str` would return `Class.NAME`."""
    if isinstance(key, str):
        return str.__str__(key)
    raise InvalidArgumentError(f"{path} has the name {key!r}: names must be text")


def check_whole(value: object, path: str, least: int = 0) -> None:
    """Refuse a value that is not a whole number. The service knows the greatest one."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or cast(int, value) < least:
        raise InvalidArgumentError(f"{path} is {value!r}, it must be a whole number from {least}")


def check_number(value: object, path: str) -> None:
    """Refuse a value that is not a finite number. The service knows its bounds."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not math.isfinite(cast(float, value)):
        raise InvalidArgumentError(f"{path} is {value!r}: a finite number is needed")


def check_numbers(values: object, path: str) -> None:
    """Refuse what is not a map from texts to numbers."""
    if not isinstance(values, Mapping):
        raise InvalidArgumentError(f"{path} is a {type(values).__name__}: a dict is needed")
    for name, number in values.items():
        check_number(number, f"{path}.{check_text(name, path)}")


def check_items(values: object, path: str, kind: type) -> None:
    """Refuse what is not a list of objects of a class. What can be read only once would be empty afterwards."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InvalidArgumentError(f"{path} is a {type(values).__name__}: a list is needed")
    for index, value in enumerate(values):
        if not isinstance(value, kind):
            raise InvalidArgumentError(f"{path}[{index}] is a {type(value).__name__}: a {kind.__name__} is needed")


def texts_of(values: Iterable[str], name: str) -> list[str]:
    """Return a list of texts; refuse a single text, which is a sequence of its characters."""
    if isinstance(values, str):
        raise InvalidArgumentError(f"{name} is the text {values!r}: a list of texts is needed")
    return list(values)


def check_choice(value: object, choices: Sequence[str], name: str) -> None:
    """Refuse a value that is not one of these texts, with the message of the service."""
    if value not in choices:
        shown = json.dumps(value) if isinstance(value, str) else repr(value)
        raise InvalidArgumentError(f"{name} is {shown}, it must be one of {', '.join(choices)}")


def encode_moment(moment: datetime, path: str) -> str:
    """Return a moment as RFC 3339 in UTC."""
    if not isinstance(moment, datetime):
        raise InvalidArgumentError(f"{path} is {moment!r}: a datetime is needed")
    if moment.tzinfo is None:
        raise InvalidArgumentError(f"{path} is {moment.isoformat()}, which has no time zone")
    if has_nanoseconds(moment):
        raise InvalidArgumentError(f"{path} is {moment.isoformat()}, which has more than 6 digits of a second")
    try:
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    except OverflowError as error:
        raise InvalidArgumentError(f"{path} is {moment.isoformat()}, which is outside the years of UTC") from error


def has_nanoseconds(moment: datetime) -> bool:
    """Whether a moment is a `Timestamp` of pandas with more than whole microseconds, which would be cut off."""
    return getattr(moment, "nanosecond", 0) != 0


def decode_moment(text: str) -> datetime:
    """Return the moment of an RFC 3339 text."""
    return datetime.fromisoformat(text)


def to_json(value: Json) -> bytes:
    """Return the JSON of a body; float32 arrays become the shortest decimals that parse to the same values."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError as error:
        raise InvalidArgumentError(f"the request cannot be written as JSON: {error}") from error


def from_json(body: bytes) -> Json:
    """Parse the body of an answer."""
    try:
        # The service writes the component -0 as the integer -0, and orjson drops its sign.
        if b"-0," in body or b"-0]" in body:
            return json.loads(body, parse_int=_signed)
        return orjson.loads(body)
    except ValueError as error:
        raise InternalError("the answer is not JSON: is this Vicinal's HTTP port?") from error


def _signed(digits: str) -> int | float:
    return -0.0 if digits == "-0" else int(digits)
