"""Attributes and filters as protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ..errors import InternalError, InvalidArgumentError
from ..filters import FilterLike, json_of_filter
from ..points import ContentType
from ..values import (
    INTEGER_MAX,
    AttributeValue,
    GeoPoint,
    Json,
    decode_value,
    encode_value,
    microseconds,
    moment_of,
)
from .wire import (
    WireValue,
    double,
    fields,
    flag,
    head,
    message,
    read_bytes,
    read_double,
    read_signed,
    read_text,
    read_unsigned,
    signed,
    text,
)

CONTENT_TYPES: list[ContentType] = ["Image", "Text"]
"""By their numbers."""


def point_id(id: str) -> bytes:
    """Return a PointID; like HTTP, also of a `UUID`."""
    return message(1, text(1, str(id)))


_USUAL_ID = head(1, 38) + head(1, 36)
"""The bytes before the 36 characters of an assigned id."""


def read_point_id(data: bytes) -> str:
    """Return the id of a PointID; an empty text if there is none."""
    if len(data) == 40 and data.startswith(_USUAL_ID):
        return data[4:].decode()
    for number, uuid in fields(data):
        if number == 1:
            return next((read_text(value) for number, value in fields(read_bytes(uuid)) if number == 1), "")
    return ""


def attributes(values: Mapping[str, AttributeValue], path: str) -> bytes:
    """Return an Attributes message, with the same checks as over HTTP."""
    checked = decode_value(encode_value(values, path))
    assert isinstance(checked, Mapping)
    return _attributes(checked)


def _attributes(values: Mapping[str, AttributeValue]) -> bytes:
    # None is an absent value. Protobuf has no null, so it is not written.
    return b"".join(
        message(1, text(1, name) + message(2, _value(value))) for name, value in values.items() if value is not None
    )


def _value(value: AttributeValue) -> bytes:
    match value:
        case str():
            return text(1, value)
        case bool():
            return flag(3, value)
        case int() | float():
            return double(2, value)
        case datetime():
            return signed(4, microseconds(value))
        case GeoPoint():
            return message(5, _geo(value.lat, value.lon))
        case Mapping():
            return message(7, _attributes(value))
        case None:
            raise InvalidArgumentError("a list of attributes has None: a list can only have values")
    return message(6, _values(value))


def _values(values: Iterable[AttributeValue]) -> bytes:
    return b"".join(message(1, _value(value)) for value in values)


def _geo(lat: float, lon: float) -> bytes:
    return double(1, lat) + double(2, lon)


def read_attributes(data: bytes) -> dict[str, AttributeValue]:
    """Return the attributes of an Attributes message."""
    found: dict[str, AttributeValue] = {}
    for number, entry in fields(data):
        if number == 1:
            parts = dict(fields(read_bytes(entry)))
            found[read_text(parts.get(1, b""))] = read_value(read_bytes(parts[2]))
    return found


def number_of(value: float) -> int | float:
    """Return a number as the HTTP client does: JSON writes 3.0 as 3, which is read as an integer."""
    return int(value) if value.is_integer() and abs(value) <= INTEGER_MAX else value


def read_value(data: bytes) -> AttributeValue:
    """Return the value of a Value message."""
    for number, value in fields(data):
        match number:
            case 1:
                return read_text(value)
            case 2:
                return number_of(read_double(value))
            case 3:
                return bool(read_unsigned(value))
            case 4:
                return moment_of(read_signed(value))
            case 5:
                degrees = {part: read_double(content) for part, content in fields(read_bytes(value))}
                return GeoPoint(degrees.get(1, 0.0), degrees.get(2, 0.0))
            case 6:
                return [read_value(read_bytes(item)) for part, item in fields(read_bytes(value)) if part == 1]
            case 7:
                return read_attributes(read_bytes(value))
    raise InternalError("the answer has a value of an unknown kind")


def filter_message(filter: FilterLike) -> bytes:
    """Return a Filter message."""
    return _filter(json_of_filter(filter), "filter")


def read_filter(data: bytes) -> dict[str, Any]:
    """Return a filter of a key from its Filter message: one that tests the values of attributes."""
    for number, value in fields(data):
        node = read_bytes(value)
        match number:
            case 1 | 2:
                return {_JOINS[number]: [read_filter(read_bytes(item)) for part, item in fields(node) if part == 1]}
            case 3:
                return {"$not": read_filter(node)}
            case 4:
                parts = dict(fields(node))
                path = read_text(parts.pop(1))
                for test, operand in parts.items():
                    return {path: _read_test(test, operand)}
    raise InternalError("the answer has a filter of an unknown kind")


def _read_test(test: int, operand: WireValue) -> Any:
    match test:
        case 2:
            return read_value(read_bytes(operand))
        case 4 | 8:
            items = [read_value(read_bytes(item)) for part, item in fields(read_bytes(operand)) if part == 1]
            return {"$in" if test == 4 else "$all": items}
        case 6:
            bounds = fields(read_bytes(operand))
            return {_BOUNDS[part]: read_value(read_bytes(bound)) for part, bound in bounds}
        case 7:
            return {"$exists": bool(read_unsigned(operand))}
        case 9:
            return {"$prefix": read_text(operand)}
    raise InternalError("the answer has a test of an unknown kind")


_JOINED = {"$and": 1, "$or": 2}
_RANGE = {"$gt": 1, "$gte": 2, "$lt": 3, "$lte": 4}
_LISTS = {"$in": 4, "$nin": 5, "$all": 8}
_JOINS = {number: name for name, number in _JOINED.items()}
_BOUNDS = {number: name for name, number in _RANGE.items()}


def _filter(json: Json, at: str) -> bytes:
    if not isinstance(json, Mapping):
        raise InvalidArgumentError(f"{at} is {json!r}: a filter is needed")
    parts = [part for key, value in json.items() for part in _member(key, value, f"{at}.{key}")]
    return parts[0] if len(parts) == 1 else _all(parts)


def _all(parts: Iterable[bytes]) -> bytes:
    return message(1, b"".join(message(1, part) for part in parts))


def _member(key: str, value: Json, at: str) -> list[bytes]:
    if key in _JOINED:
        if not isinstance(value, list):
            raise InvalidArgumentError(f"{at} must be a list of filters")
        inner = b"".join(message(1, _filter(item, f"{at}[{index}]")) for index, item in enumerate(value))
        return [message(_JOINED[key], inner)]
    if key == "$not":
        return [message(3, _filter(value, at))]
    if not _has_operators(value):
        return [_condition(key, "$eq", value, at)]
    if not value:
        # Without this test, the filter would match more points than intended.
        raise InvalidArgumentError(f'{at} has no operator, like {{"$eq": …}}')
    ranges = {operator: operand for operator, operand in value.items() if operator in _RANGE}
    others = [_condition(key, name, operand, f"{at}.{name}") for name, operand in value.items() if name not in _RANGE]
    return [*others, _range(key, ranges)] if ranges else others


def _has_operators(value: Json) -> bool:
    return isinstance(value, dict) and not {"$date", "$geo"} & value.keys()


def _condition(path: str, operator: str, operand: Json, at: str) -> bytes:
    if path == "$id":
        return _ids(operator, operand, at)
    if operand is None and operator in ("$eq", "$ne"):
        return _test(path, flag(7, operator == "$ne"))
    match operator:
        case "$eq" | "$ne":
            return _test(path, message(2 if operator == "$eq" else 3, _value(decode_value(operand))))
        case "$in" | "$nin" | "$all":
            if not isinstance(operand, list):
                raise InvalidArgumentError(f"{at} must be a list of values")
            return _test(path, message(_LISTS[operator], _values(decode_value(item) for item in operand)))
        case "$exists":
            return _test(path, flag(7, operand))
        case "$prefix":
            return _test(path, text(9, operand))
        case "$match" | "$phrase":
            return _test(path, text(12 if operator == "$match" else 13, operand))
        case "$near":
            center = message(1, _geo(operand["lat"], operand["lon"]))
            return _test(path, message(10, center + double(2, operand["radius_m"])))
        case "$box":
            corners = (operand["south_west"], operand["north_east"])
            inner = (message(n, _geo(corner["lat"], corner["lon"])) for n, corner in enumerate(corners, 1))
            return _test(path, message(11, b"".join(inner)))
    raise InvalidArgumentError(f"{at}: {operator} is not known")


def _range(path: str, bounds: Mapping[str, Json]) -> bytes:
    inner = (message(_RANGE[name], _value(decode_value(bound))) for name, bound in bounds.items())
    return _test(path, message(6, b"".join(inner)))


def _ids(operator: str, operand: Json, at: str) -> bytes:
    if operator not in ("$eq", "$ne", "$in", "$nin"):
        raise InvalidArgumentError(f"{at}: {operator} is not possible with $id")
    ids = operand if isinstance(operand, list) else [operand]
    node = message(5, b"".join(message(1, point_id(id)) for id in ids))
    return node if operator in ("$eq", "$in") else message(3, node)


def _test(path: str, test: bytes) -> bytes:
    return message(4, text(1, path) + test)
