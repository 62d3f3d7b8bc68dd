"""The metadata of frameworks, which may be any values of Python, as attributes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from .errors import InvalidArgumentError
from .values import INTEGER_MAX, Attributes, AttributeValue, encode_value, has_nanoseconds, microseconds

_FAULTS_SHOWN = 5


def attributes_of_metadata(metadata: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """
    Return metadata as attributes. Values that attributes cannot have are converted:

    - a `datetime` without a time zone is taken as UTC; a `date`, a `time`, a `UUID` and a path become texts
    - a `Decimal` becomes a number if that has the same digits, else a text; an integer beyond 2^53 becomes a text, and
      so does a `datetime` that is not exact as float64 microseconds
    - a `timedelta` becomes its seconds, an `Enum` its value, a tuple or a set a list
    - `{"a.b": 1}` becomes `{"a": {"b": 1}}`, at the path `a.b`; names that are no texts become texts
    - None and NaN are left out

    :raises InvalidArgumentError: names the first value that cannot be kept
    """
    return _map_of(metadata, "metadata")


def attributes_of_all(documents: Iterable[tuple[str, Mapping[str, Any]]], noun: str) -> list[Attributes]:
    """
    Return the attributes of documents, which are given as pairs of an id and metadata. If some cannot be kept, the
    error names all of these documents, and nothing is stored.
    """
    converted: list[Attributes] = []
    faults: list[str] = []
    for index, (id, metadata) in enumerate(documents):
        try:
            converted.append(attributes_of_metadata(metadata))
        except InvalidArgumentError as error:
            faults.append(f"{noun} {index} ({id!r}): {error}")
    if faults:
        more = [] if len(faults) <= _FAULTS_SHOWN else [f"and {len(faults) - _FAULTS_SHOWN} more"]
        raise InvalidArgumentError("; ".join([*faults[:_FAULTS_SHOWN], *more]))
    return converted


def _map_of(values: Mapping[Any, Any], path: str) -> dict[str, AttributeValue]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        at = f"{path}.{key}"
        converted = _value_of(value, at)
        if converted is None:
            continue
        names = (key if isinstance(key, str) else str(key)).split(".")
        if any(name == "" or name.startswith("$") for name in names):
            raise InvalidArgumentError(f"{at} cannot be kept: a name must not be empty or begin with '$'")
        for name in reversed(names[1:]):
            converted = {name: converted}
        _add(found, names[0], converted, at)
    return found


def _add(target: dict[str, Any], name: str, value: Any, path: str) -> None:
    """Add a value to a map; maps with the same name become one."""
    if name not in target:
        target[name] = value
    elif isinstance(target[name], dict) and isinstance(value, dict):
        for each, item in value.items():
            _add(target[name], each, item, path)
    else:
        raise InvalidArgumentError(f"{path} cannot be kept: another value is at the same path")


def _value_of(value: Any, path: str) -> Any:
    """Return a value as an attribute; None if it is left out."""
    if hasattr(value, "dtype") and hasattr(value, "tolist") and value.dtype.kind not in "mM":
        value = value.tolist()
    if value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in _MISSING:
        return None
    match value:
        case Enum():
            return _value_of(value.value, path)
        case bool() | str():
            return value
        case int() if abs(value) > INTEGER_MAX:
            return str(value)
        case Decimal():
            number = float(value)
            same = math.isfinite(number) and Decimal(repr(number)) == value
            return number if same else str(value)
        case datetime():
            moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            us = microseconds(moment)
            return moment if float(us) == us and not has_nanoseconds(moment) else moment.isoformat()
        case date() | time():
            return value.isoformat()
        case UUID() | PurePath():
            return str(value)
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return _map_of(value, path)
        case list() | tuple() | set() | frozenset():
            items = (_value_of(item, f"{path}[{index}]") for index, item in enumerate(value))
            return [item for item in items if item is not None]
    encode_value(value, path)
    return value


_MISSING = ("NAType", "NaTType")
"""Missing values of pandas."""
