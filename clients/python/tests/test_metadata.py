"""How the metadata of frameworks become attributes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum

import pandas as pd
import pytest

from vicinal import InvalidArgumentError
from vicinal.metadata import attributes_of_all, attributes_of_metadata
from vicinal.values import microseconds


def test_names_with_dots_become_paths() -> None:
    assert attributes_of_metadata({"a.b": 1, "a": {"c": {"d.e": 2}}}) == {"a": {"b": 1, "c": {"d": {"e": 2}}}}
    assert attributes_of_metadata({"a": {"c": 2}, "a.b": 1}) == {"a": {"b": 1, "c": 2}}


def test_names_may_be_those_of_an_enum() -> None:
    class Name(str, Enum):  # noqa: UP042
        B = "a.b"

    assert attributes_of_metadata({Name.B: 1}) == {"a": {"b": 1}}


def test_missing_values_are_left_out() -> None:
    assert attributes_of_metadata({"a": None, "b": float("nan"), "c": pd.NA, "d": pd.NaT, "e": [None, 1]}) == {"e": [1]}
    assert attributes_of_metadata({"n": Decimal("NaN"), "i": Decimal("Infinity")}) == {"n": "NaN", "i": "Infinity"}


def test_dates_are_kept_exactly() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59)
    assert attributes_of_metadata({"a": last}) == {"a": last.replace(tzinfo=UTC)}
    assert attributes_of_metadata({"a": datetime.max}) == {"a": "9999-12-31T23:59:59.999999+00:00"}
    assert attributes_of_metadata({"a": pd.Timestamp(1)}) == {"a": "1970-01-01T00:00:00.000000001+00:00"}
    assert attributes_of_metadata({"a": pd.Timestamp(1000)}) == {"a": datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)}


def test_dates_of_other_libraries_are_dates_whatever_their_differences_are() -> None:
    class Other(datetime):
        def __sub__(self, other: object) -> object:  # type: ignore[override]
            return "an interval"

    moment = Other(2026, 1, 1, tzinfo=UTC)
    assert attributes_of_metadata({"a": moment}) == {"a": moment}
    assert microseconds(moment) == 1_767_225_600_000_000


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"a": 1, "a.b": 2}, r"metadata\.a\.b cannot be kept: another value"),
        ({"a.b": 2, "a": 1}, r"metadata\.a cannot be kept: another value"),
        ({"a..b": 2}, "must not be empty"),
        ({"": 2}, "must not be empty"),
        ({"x": [{"$y": 1}]}, r"metadata\.x\[0\]\.\$y cannot be kept"),
        ({"x": float("inf")}, r"metadata\.x is inf"),
        ({"x": object()}, r"metadata\.x is a object"),
    ],
)
def test_what_cannot_be_kept_is_named(metadata: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        attributes_of_metadata(metadata)


def test_documents_are_named_up_to_a_number() -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        attributes_of_all([(f"id-{n}", {"x": b""} if n % 2 else {}) for n in range(20)], "document")
    assert str(raised.value).startswith("document 1 ('id-1'): metadata.x is a bytes")
    assert str(raised.value).endswith("and 5 more")
