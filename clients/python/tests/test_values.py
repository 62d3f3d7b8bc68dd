"""How attributes and filters are written and read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum

import numpy as np
import pandas as pd
import pytest

from vicinal import F, FilterLike, GeoPoint, InvalidArgumentError, uuid_of
from vicinal.filters import json_of_filter
from vicinal.values import decode_value, encode_value, from_json, to_json

MOMENT = datetime(2026, 11, 22, 10, 0, 0, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "json"),
    [
        ("a", "a"),
        (True, True),
        (3, 3),
        (9.5, 9.5),
        (MOMENT, {"$date": "2026-11-22T10:00:00.500000Z"}),
        (GeoPoint(1, 2), {"$geo": {"lat": 1, "lon": 2}}),
        ({"a": {"b": [1, {"c": MOMENT}]}}, {"a": {"b": [1, {"c": {"$date": "2026-11-22T10:00:00.500000Z"}}]}}),
    ],
)
def test_values_are_read_as_they_were_written(value: object, json: object) -> None:
    assert encode_value(value, "attributes") == json
    assert decode_value(json) == value


def test_values_of_numpy_and_other_time_zones_are_written_plainly() -> None:
    east = timezone(timedelta(hours=2))
    assert encode_value(datetime(2026, 1, 1, 1, tzinfo=east), "at") == {"$date": "2025-12-31T23:00:00Z"}
    assert encode_value(np.float64(1.5), "price") == 1.5
    assert encode_value(np.array([1, 2]), "sizes") == [1, 2]
    assert encode_value(("a", None), "tags") == ["a", None]


def test_names_may_be_those_of_an_enum() -> None:
    field = StrEnum("field", "COLOR")
    assert to_json(encode_value({field.COLOR: {field.COLOR: "red"}}, "attributes")) == b'{"color":{"color":"red"}}'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [datetime(2026, 1, 1)]}, r"attributes\.a\[0\] is 2026-01-01T00:00:00, which has no time zone"),
        (
            {"a": pd.Timestamp(1, tz="UTC")},
            r"attributes\.a is 1970-01-01T00:00:00\.000000001\+00:00, which has more than 6",
        ),
        ({"a": 2**53 + 1}, "attributes.a is 9007199254740993: integers beyond"),
        ({"a": float("inf")}, "attributes.a is inf"),
        ({"a": object()}, "attributes.a is a object"),
        ({"a": b"xyz"}, "attributes.a is a bytes"),
        ({"a": np.timedelta64(5, "ns")}, "attributes.a is a timedelta64"),
        ({"a": np.array(["1970-01-01"], "M8[ns]")}, "attributes.a is a ndarray"),
        ({"a": np.longdouble(1)}, "attributes.a is a longdouble"),
        ({1: "a"}, "names must be text"),
    ],
)
def test_what_cannot_be_a_value_is_named(value: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        encode_value(value, "attributes")


@pytest.mark.parametrize("text", ["2026-11-22T10:00:00Z", "2026-11-22T10:00:00.5Z", "0001-01-01T00:00:00.000001Z"])
def test_moments_may_have_any_number_of_digits(text: str) -> None:
    moment = decode_value({"$date": text})
    assert isinstance(moment, datetime)
    assert moment.tzinfo == UTC
    assert moment.microsecond == {"Z": 0, "5Z": 500_000, "1Z": 1}[text[-1] if text[19] == "Z" else text[-2:]]


def test_minus_zero_keeps_its_sign() -> None:
    assert [str(number) for number in from_json(b"[-0,1,-0]")] == ["-0.0", "1", "-0.0"]


price, tags = F("price"), F("tags")


@pytest.mark.parametrize(
    ("filter", "json"),
    [
        (price == 5, {"price": {"$eq": 5}}),
        (price != None, {"price": {"$ne": None}}),  # noqa: E711
        (price < 5, {"price": {"$lt": 5}}),
        (price <= 5, {"price": {"$lte": 5}}),
        (price > 5, {"price": {"$gt": 5}}),
        (price >= 5, {"price": {"$gte": 5}}),
        (price.between(1, 2), {"price": {"$gte": 1, "$lte": 2}}),
        (tags.any_of({"a"}), {"tags": {"$in": ["a"]}}),
        (tags.none_of([]), {"tags": {"$nin": []}}),
        (tags.all_of(["a", "b"]), {"tags": {"$all": ["a", "b"]}}),
        (tags.exists(), {"tags": {"$exists": True}}),
        (tags.starts_with("a"), {"tags": {"$prefix": "a"}}),
        (F("at").near(GeoPoint(1, 2), 500), {"at": {"$near": {"lat": 1, "lon": 2, "radius_m": 500}}}),
        (
            F("at").within(GeoPoint(1, 2), GeoPoint(3, 4)),
            {"at": {"$box": {"south_west": {"lat": 1, "lon": 2}, "north_east": {"lat": 3, "lon": 4}}}},
        ),
        ((price < 5) & {"a.b": 1}, {"$and": [{"price": {"$lt": 5}}, {"a.b": 1}]}),
        ((price < 5) | ~tags.exists(), {"$or": [{"price": {"$lt": 5}}, {"$not": {"tags": {"$exists": True}}}]}),
        ({"$or": [price < 5, {"a": 1}]}, {"$or": [{"price": {"$lt": 5}}, {"a": 1}]}),
        ({"at": {"$gt": MOMENT}}, {"at": {"$gt": {"$date": "2026-11-22T10:00:00.500000Z"}}}),
        ({"$not": price < 5}, {"$not": {"price": {"$lt": 5}}}),
        ({}, {}),
    ],
)  # fmt: skip
def test_filters_are_written_in_the_syntax_of_the_service(filter: FilterLike, json: object) -> None:
    assert json_of_filter(filter) == json


def test_a_filter_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="combine filters with &"):
        bool(price > 1)
    with pytest.raises(TypeError, match="combine filters with &"):
        assert 1 < price < 5


def test_an_invalid_filter_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="the filter is a str"):
        json_of_filter("price < 5")  # type: ignore[arg-type]


def test_any_text_has_a_uuid() -> None:
    id = "8F14E45F-ceea-467f-a8d0-2b4e1c9f7a63"
    assert uuid_of(id) == id.lower()
    assert uuid_of("1") == uuid_of("1") != uuid_of("2")
    assert uuid_of("{" + id + "}") != id.lower()
