"""Filters with a part that a message cannot show: without it, they would match more points than intended."""

from __future__ import annotations

from typing import Any

import pytest

from vicinal import F, InvalidArgumentError, Vicinal


@pytest.mark.parametrize(
    "filter",
    [
        {"shop": "x", "price": {}},
        {"shop": "x", "price": {"$gte": None}},
        {"shop": "x", "price": {"$gte": 2, "$lt": None}},
        {"shop": "x", "price": {"$in": None}},
        {"shop": "x", "price": {"$in": [None]}},
        {"shop": "x", "price": {"$exists": None}},
        {"shop": "x", "$id": {}},
        {"shop": "x", "$and": None},
        {"shop": "x", "$and": [[]]},
        {"shop": "x", "$not": None},
        {"$or": [F("shop") == "y", {"price": {}}]},
        {"$not": {"shop": "y", "price": {}}},
    ],
    ids=ascii,
)
def test_a_filter_with_an_empty_part_deletes_nothing(points: Vicinal, filter: dict[str, Any]) -> None:
    for price in range(4):
        points.insert([price, 1], "", attributes={"shop": "x", "price": price})
    with pytest.raises(InvalidArgumentError):
        points.delete_where(filter)
    assert points.count() == 4


def test_the_place_of_a_missing_operator_is_named(points: Vicinal) -> None:
    with pytest.raises(InvalidArgumentError, match=r"filter\.\$or\[1\]\.price has no operator"):
        points.count({"$or": [{"shop": "y"}, {"price": {}}]})
