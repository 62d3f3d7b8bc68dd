"""
Filters select the points of a request. They are plain dicts in the service's syntax, or are built from fields:

    cheap = (F("price") < 10) & F("tags").any_of(["a", "b"]) & ~F("sold").exists()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from .errors import InvalidArgumentError
from .values import AttributeValue, GeoPoint, Json, Scalar, encode_value, name_of


class Filter:
    """A filter that was built from fields. Combine filters with `&`, `|` and `~`."""

    __slots__ = ("json",)

    def __init__(self, json: Mapping[str, Json]) -> None:
        self.json = json

    def __and__(self, other: FilterLike) -> Filter:
        return Filter({"$and": [self.json, json_of_filter(other)]})

    def __or__(self, other: FilterLike) -> Filter:
        return Filter({"$or": [self.json, json_of_filter(other)]})

    def __invert__(self) -> Filter:
        return Filter({"$not": self.json})

    def __bool__(self) -> bool:
        # Python evaluates the truth value of the first part in `a and b` and `1 < field < 5`, and then drops that part.
        raise TypeError("a filter has no truth value: combine filters with &, | and ~, in parentheses")

    def __repr__(self) -> str:
        return f"Filter({self.json!r})"


FilterLike: TypeAlias = Filter | Mapping[str, Any]
"""A built filter, or a dict like `{"price": {"$lt": 10}, "tags": {"$in": ["a"]}}`."""


class F:
    """A field: an attribute by its path, as `a.b`, or one of `$id`, `$content_type`, `$expires_at`, `$version`."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = name_of(path, "the filter")

    def __eq__(self, value: Scalar | None) -> Filter:  # type: ignore[override]
        return self._test("$eq", value)

    def __ne__(self, value: Scalar | None) -> Filter:  # type: ignore[override]
        return self._test("$ne", value)

    def __lt__(self, value: Scalar) -> Filter:
        return self._test("$lt", value)

    def __le__(self, value: Scalar) -> Filter:
        return self._test("$lte", value)

    def __gt__(self, value: Scalar) -> Filter:
        return self._test("$gt", value)

    def __ge__(self, value: Scalar) -> Filter:
        return self._test("$gte", value)

    def __hash__(self) -> int:
        return hash(self.path)

    def any_of(self, values: Iterable[Scalar]) -> Filter:
        """Match points that have one of the values; without values, match no point."""
        return self._test("$in", _operands(values))

    def none_of(self, values: Iterable[Scalar]) -> Filter:
        """Match points that have none of the values, including points without the field."""
        return self._test("$nin", _operands(values))

    def all_of(self, values: Iterable[Scalar]) -> Filter:
        """Match points whose list has each of the values."""
        return self._test("$all", _operands(values))

    def between(self, low: Scalar, high: Scalar) -> Filter:
        """Match values from `low` to `high`, inclusive."""
        return _condition(self.path, {"$gte": low, "$lte": high})

    def exists(self) -> Filter:
        """Match points that have the field."""
        return self._test("$exists", True)

    def starts_with(self, prefix: str) -> Filter:
        """Match texts that begin with the prefix."""
        return self._test("$prefix", prefix)

    def matches(self, words: str) -> Filter:
        """Match texts that have all of these words, if the collection has words at the path."""
        return self._test("$match", words)

    def has_phrase(self, words: str) -> Filter:
        """Match texts that have these words in this order."""
        return self._test("$phrase", words)

    def near(self, center: GeoPoint, radius_m: float) -> Filter:
        """Match places within this distance, in metres."""
        return self._test("$near", {"lat": center.lat, "lon": center.lon, "radius_m": radius_m})

    def within(self, south_west: GeoPoint, north_east: GeoPoint) -> Filter:
        """Match places in a box. A box whose west is greater than its east crosses the 180th meridian."""
        corners = {"south_west": south_west, "north_east": north_east}
        return self._test("$box", {name: {"lat": at.lat, "lon": at.lon} for name, at in corners.items()})

    def _test(self, operator: str, value: AttributeValue | None) -> Filter:
        return _condition(self.path, {operator: value})


def json_of_filter(filter: FilterLike) -> Mapping[str, Json]:
    """Return the JSON of a filter, in which dates and places are tagged."""
    match filter:
        case Filter(json=json):
            return json
        case Mapping():
            named = {name_of(key, "the filter"): value for key, value in filter.items()}
            return {
                key: _branches(value) if key in ("$and", "$or", "$not") else encode_value(value, f"filter.{key}")
                for key, value in named.items()
            }
    raise InvalidArgumentError(f"the filter is a {type(filter).__name__}: a dict or a Filter is needed")


def _branches(value: object) -> Json:
    """Return the filters below `$and`, `$or` or `$not`, which may mix `Filter` objects and dicts."""
    match value:
        case Filter() | Mapping():
            return json_of_filter(value)
        case list() | tuple():
            return [_branches(item) for item in value]
    return encode_value(value, "filter")


def _operands(values: Iterable[Scalar]) -> list[Scalar]:
    if isinstance(values, str):
        raise InvalidArgumentError(f"the text {values!r} was given in place of a list of values")
    return list(values)


def _condition(path: str, test: Mapping[str, AttributeValue | None]) -> Filter:
    return Filter({path: {operator: encode_value(value, path) for operator, value in test.items()}})
