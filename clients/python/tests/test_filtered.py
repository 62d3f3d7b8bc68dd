"""Filters in searches, lists, counts, facets, updates and deletes."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum

import numpy as np
import pytest

from vicinal import (
    Attributes,
    Columns,
    F,
    FacetCount,
    FilterLike,
    GeoPoint,
    GroupBy,
    Include,
    InvalidArgumentError,
    Query,
    Vicinal,
    Words,
)

SHOPS = ["north", "south"]


class Name(str, Enum):  # noqa: UP042
    """Not a StrEnum, whose members `str` would write as their values; it writes this one as `Name.SHOP`."""

    SHOP = "shop"


CITIES = {"Berlin": GeoPoint(52.52, 13.40), "Potsdam": GeoPoint(52.40, 13.06), "Suva": GeoPoint(-18.14, 178.44)}


@pytest.fixture
def stock(points: Vicinal) -> list[str]:
    """Ids of 30 points. Point i has the vector (i, 1), the price i and the shop i % 2."""
    numbers = range(30)
    attributes: list[Attributes] = [
        {
            "price": number,
            "shop": SHOPS[number % 2],
            "tags": [f"tag-{number % 3}", "all"],
            "added": datetime(2026, 1, 1 + number, tzinfo=UTC),
            "place": list(CITIES.values())[number % 3],
            **({"rare": True} if number == 7 else {}),
        }
        for number in numbers
    ]
    columns = Columns(np.array([[number, 1] for number in numbers]), [str(n) for n in numbers], attributes=attributes)
    return points.insert_batch(columns)


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (F("price") == 3, [3]),
        (F("price") < 3, [0, 1, 2]),
        (F("price").between(3, 5), [3, 4, 5]),
        ((F("price") >= 27) & (F("shop") == "north"), [28]),
        ((F("price") == 1) | F("rare").exists(), [1, 7]),
        (F("tags").all_of(["tag-0", "all"]) & (F("price") < 6), [0, 3]),
        (F("tags").any_of(["tag-1"]) & ~(F("price") >= 6), [1, 4]),
        (F("tags").none_of(["tag-0", "tag-1"]) & (F("price") < 6), [2, 5]),
        (F("added") >= datetime(2026, 1, 29, tzinfo=UTC), [28, 29]),
        (F("shop").starts_with("nor") & (F("price") < 5), [0, 2, 4]),
        (F("place").near(CITIES["Berlin"], 50_000) & (F("price") < 5), [0, 1, 3, 4]),
        (F("place").within(GeoPoint(-20, 170), GeoPoint(-10, -170)) & (F("price") < 6), [2, 5]),
        (F("$content_type") == "Image", []),
        ({"price": {"$in": [1, 2]}, "shop": "north"}, [2]),
        ({"$or": [F("price") == 1, {"price": 2}]}, [1, 2]),
        ({"rare": None, "price": {"$gt": 5, "$lt": 9}}, [6, 8]),
    ],
    ids=str,
)
def test_only_points_that_match_are_found(
    points: Vicinal, stock: list[str], filter: FilterLike, expected: list[int]
) -> None:
    result = points.search([0, 1], "Euclidean", limit=30, filter=filter)
    assert [int(hit.content or "") for hit in result.hits] == expected
    assert [point.id for point in points.iterate(filter)] == [stock[number] for number in expected]
    assert points.count(filter) == len(expected)


def test_hits_have_what_was_asked_for(points: Vicinal, stock: list[str]) -> None:
    nearest = points.search([3, 1], "Euclidean", limit=1)
    hit = nearest.hits[0]
    assert (hit.id, hit.distance, hit.content, hit.content_type) == (stock[3], 0, "3", "Text")
    assert hit.attributes["place"] == CITIES["Berlin"]
    assert (hit.vector, hit.version) == (None, None)
    everything = Include(distance=True, vector=True, version=True, attributes=["price"])
    hit = points.search([3, 2], "Euclidean", limit=1, include=everything).hits[0]
    assert (hit.distance, hit.attributes, hit.content) == (1, {"price": 3}, None)
    assert hit.vector is not None
    assert hit.vector.dtype == np.float32
    assert hit.vector.tolist() == [3, 1]
    assert hit.version == points.get(stock[3], with_version=True).version


def test_a_search_can_be_near_a_stored_point_and_bounded(points: Vicinal, stock: list[str]) -> None:
    near = points.search(stock[3], "Euclidean", limit=2, include=None)
    assert near.ids == [stock[2], stock[4]]
    bounded = points.search([0, 1], "Euclidean", limit=30, max_distance=2, exact=True)
    assert [hit.distance for hit in bounded.hits] == [0, 1, 2]
    queries = [Query(metric="Euclidean", near=stock[0], limit=1), Query(metric="Manhattan", near=[9, 1], limit=1)]
    assert [[hit.content for hit in result.hits] for result in points.search_batch(queries)] == [["1"], ["9"]]


def test_a_profile_says_how_a_search_was_answered(points: Vicinal, stock: list[str]) -> None:
    profile = points.search([0, 1], "Euclidean", filter=F("price") < 10, profile=True).profile
    assert profile is not None
    assert (profile.points, profile.matching) == (30, 10)
    assert profile.plan
    assert profile.reason
    profiles = points.search_batch([Query(metric="Cosine", near=[1, 1], profile=on) for on in (True, False)])
    assert [result.profile is not None for result in profiles] == [True, False]


def test_pages_have_every_point_once(points: Vicinal, stock: list[str]) -> None:
    page = points.list_points(limit=20)
    assert [point.id for point in page.points] == stock[:20]
    assert page.points[0].attributes["price"] == 0
    rest = points.list_points(limit=20, cursor=page.next_cursor, include=Include(vector=True))
    assert [point.id for point in rest.points] == stock[20:]
    assert rest.next_cursor is None
    assert rest.points[0].content is None
    assert rest.points[0].vector is not None
    assert [point.id for point in points.iterate(page_size=7, include=None)] == stock
    with pytest.raises(InvalidArgumentError):
        points.list_points(cursor="no cursor")


def test_facets_count_values(points: Vicinal, stock: list[str]) -> None:
    facets = points.facets(["shop", "tags", "place"], filter=F("price") < 9, limit=1)
    assert facets["shop"] == [FacetCount("north", 5)]
    assert facets["tags"] == [FacetCount("all", 9)]
    assert facets["place"][0].count == 3


def test_names_may_be_those_of_an_enum(client: Vicinal) -> None:
    client.collections.put(Name.SHOP, words=Words(paths={Name.SHOP: 2}))
    at_shop = client.collection(Name.SHOP)
    for shop in SHOPS:
        at_shop.insert([1, 2], "x", attributes={Name.SHOP: shop})
    filters: list[FilterLike] = [{Name.SHOP: "north"}, {"$not": {Name.SHOP: {"$ne": "north"}}}, F(Name.SHOP) == "north"]
    assert [at_shop.count(filter) for filter in filters] == [1, 1, 1]
    assert at_shop.facets([Name.SHOP], filter=filters[0]) == {"shop": [FacetCount("north", 1)]}
    shown = at_shop.search(
        [1, 2], "Cosine", words="north", group_by=GroupBy(Name.SHOP), include=Include(attributes=[Name.SHOP])
    )
    assert sorted(str(hit.attributes["shop"]) for hit in shown.hits) == SHOPS
    assert at_shop.update_where({Name.SHOP: "south"}, unset=[Name.SHOP]).changed == 1
    assert at_shop.delete_where({Name.SHOP: {"$ne": "north"}}).changed == 1
    client.collections.delete("shop")


def test_updates_and_deletes_by_filter(points: Vicinal, stock: list[str]) -> None:
    cheap = F("price") < 10
    assert points.update_where(cheap, set={"cheap": True}, dry_run=True).changed == 10
    assert points.count(F("cheap").exists()) == 0
    changed = points.update_where(cheap, set={"cheap": True}, unset=["tags"])
    assert (changed.changed, changed.more) == (10, False)
    assert "tags" not in points.get(stock[0]).attributes
    some = points.delete_where(cheap, limit=4)
    assert (some.changed, some.more) == (4, True)
    assert points.count() == 26
    with pytest.raises(InvalidArgumentError):
        points.delete_where({})
    assert points.delete_where({}, everything=True).changed == 26
    assert points.count() == 0


def test_an_unknown_operator_is_named(points: Vicinal, stock: list[str]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\$gtee"):
        points.count({"price": {"$gtee": 1}})


def test_an_empty_collection_has_nothing_to_find(points: Vicinal) -> None:
    assert points.search([1, 2], "Cosine").hits == []
    assert points.search([1, 2], "Cosine", filter=F("a") == 1, profile=True).hits == []
    assert [result.hits for result in points.search_batch([Query(metric="Cosine", near=[1, 2])])] == [[]]
    assert (points.count(), points.list_points().points, points.facets(["a"])["a"]) == (0, [], [])
    assert points.delete_where({"a": 1}).changed == 0


@pytest.mark.parametrize(
    "filter",
    [
        {"at": {"$near": {"lat": 1}}},
        {"at": {"$near": {"lat": "a", "lon": 1, "radius_m": 1}}},
        {"at": {"$box": 5}},
        {"price": {"$in": 5}},
        {"name": {"$prefix": 5}},
        {"$or": {"a": 1}},
        {"$id": {"$gt": "a"}},
        {"$idd": 1},
        {"name": "a \ud800"},
    ],
    ids=ascii,
)
def test_malformed_filters_are_refused(points: Vicinal, filter: FilterLike) -> None:
    with pytest.raises(InvalidArgumentError):
        points.count(filter)
