"""Searches, and the operations by filter: list, count, facets, update and delete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from types import EllipsisType

from .clusters import Consistency, OnPartial
from .filters import FilterLike, json_of_filter
from .operation import HttpRequest, HttpResponse, Operation, Place
from .point_operations import json_of_changes
from .points import (
    USUAL_HIT,
    USUAL_LISTED,
    Include,
    Metric,
    Query,
    SearchResult,
    StoredPoint,
    listed_of,
    result_of,
)
from .values import Attributes, AttributeValue, Json, decode_value, to_json
from .vectors import Text, VectorLike


@dataclass(frozen=True, slots=True)
class Search(Operation[SearchResult]):
    """
    Find what is near a vector, or near a stored point, by its id; the point itself is left out. Near a `Text`, for a
    service with embeddings.

    With a `filter` only points that match are found: as many as there are, up to `limit`. `exact` compares with every
    point that matches; `max_distance` leaves out what is farther, in the units of the metric. Hits have distance and
    payload unless `include` says otherwise; None asks for ids only. `profile` lets the answer say how it was found.

    For clusters: `consistency` is how new the answer has to be, in place of the client's. `on_partial` allows an answer
    without the points of which no node answers, and is called with how many partitions are `Missing`, before the answer
    is returned; without it such a call fails with `NotReadyError`. With it, nodes that have not answered after
    `partial_after_s` seconds are left out as well. Any other service ignores all three.
    """

    place: Place
    near: VectorLike | str | Text
    metric: Metric
    _: KW_ONLY
    limit: int = 10
    filter: FilterLike | None = None
    include: Include | None = USUAL_HIT
    ef: int | None = None
    exact: bool = False
    max_distance: float | None = None
    profile: bool = False
    consistency: Consistency | None = None
    on_partial: OnPartial | None = None
    partial_after_s: float | None = None

    @property
    def query(self) -> Query:
        """The search as one of a batch."""
        return Query(
            metric=self.metric,
            near=self.near,
            limit=self.limit,
            ef=self.ef,
            filter=self.filter,
            include=self.include,
            exact=self.exact,
            max_distance=self.max_distance,
            profile=self.profile,
        )

    def request(self) -> HttpRequest:
        return _post(self.place, "search", self.query.to_json())

    def answer(self, response: HttpResponse) -> SearchResult:
        json = response.json
        return result_of(self.query, json["results"], json.get("hits", ()), json.get("profile"))


@dataclass(frozen=True, slots=True)
class SearchBatch(Operation[list[SearchResult]]):
    """
    Answer every query, or none when one of them is invalid. `Query.for_each` turns rows of an array into queries.

    `consistency`, `on_partial` and `partial_after_s` are those of `search`, for all queries together.
    """

    place: Place
    queries: Sequence[Query]
    _: KW_ONLY
    consistency: Consistency | None = None
    on_partial: OnPartial | None = None
    partial_after_s: float | None = None

    def request(self) -> HttpRequest:
        return _post(self.place, "search/batch", {"queries": [query.to_json() for query in self.queries]})

    def answer(self, response: HttpResponse) -> list[SearchResult]:
        json = response.json
        nothing = [None] * len(self.queries)
        hits, profiles = json.get("hits", nothing), json.get("profile", nothing)
        return [result_of(*parts) for parts in zip(self.queries, json["results"], hits, profiles, strict=True)]


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the points of a list, in the order of their insertion. Without a cursor it is the last page."""

    points: list[StoredPoint]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ListPoints(Operation[Page]):
    """
    Return one page of the points that match, in the order of their insertion; `iterate` goes through all pages.

    Points have their payload unless `include` says otherwise; None asks for ids only.

    `consistency`, `on_partial` and `partial_after_s` are those of `search`. A partial page lacks points of its range of
    the order: its cursor goes on behind them, and the cursor that it came from asks for the page again.
    """

    place: Place
    filter: FilterLike | None = None
    _: KW_ONLY
    limit: int = 100
    cursor: str | None = None
    include: Include | None = USUAL_LISTED
    consistency: Consistency | None = None
    on_partial: OnPartial | None = None
    partial_after_s: float | None = None

    def request(self) -> HttpRequest:
        body: dict[str, Json] = {**_filter(self.filter), "limit": self.limit}
        if self.cursor is not None:
            body["cursor"] = self.cursor
        body["include"] = (self.include or Include()).to_json()
        return _post(self.place, "list", body)

    def answer(self, response: HttpResponse) -> Page:
        json = response.json
        return Page([listed_of(point) for point in json["points"]], json.get("next_cursor"))


@dataclass(frozen=True, slots=True)
class Count(Operation[int]):
    """
    Return how many points match; without a filter, how many there are.

    `consistency`, `on_partial` and `partial_after_s` are those of `search`.
    """

    place: Place
    filter: FilterLike | None = None
    _: KW_ONLY
    consistency: Consistency | None = None
    on_partial: OnPartial | None = None
    partial_after_s: float | None = None

    def request(self) -> HttpRequest:
        return _post(self.place, "count", _filter(self.filter))

    def answer(self, response: HttpResponse) -> int:
        count: int = response.json["count"]
        return count


@dataclass(frozen=True, slots=True)
class FacetCount:
    """How many points have a value."""

    value: AttributeValue
    count: int


@dataclass(frozen=True, slots=True)
class Facets(Operation[dict[str, list[FacetCount]]]):
    """
    Return the most frequent values at each path, with how many of the matching points have them.

    `consistency`, `on_partial` and `partial_after_s` are those of `search`.
    """

    place: Place
    paths: Sequence[str]
    _: KW_ONLY
    filter: FilterLike | None = None
    limit: int | None = None
    consistency: Consistency | None = None
    on_partial: OnPartial | None = None
    partial_after_s: float | None = None

    def request(self) -> HttpRequest:
        body: dict[str, Json] = {**_filter(self.filter), "paths": list(self.paths)}
        if self.limit is not None:
            body["limit"] = self.limit
        return _post(self.place, "facets", body)

    def answer(self, response: HttpResponse) -> dict[str, list[FacetCount]]:
        return {
            path: [FacetCount(decode_value(entry["value"]), entry["count"]) for entry in counts]
            for path, counts in response.json["facets"].items()
        }


@dataclass(frozen=True, slots=True)
class Changed:
    """How many points were changed in one step, and whether more of them match."""

    changed: int
    more: bool


@dataclass(frozen=True, slots=True)
class UpdateWhere(Operation[Changed]):
    """
    Change all points that match, at most 100,000 in one step: repeat while there are `more`.

    The filter must be such that changed points no longer match if it is to be repeated. `dry_run` only counts. An empty
    filter is refused unless `everything` is meant.
    """

    place: Place
    filter: FilterLike
    _: KW_ONLY
    set: Attributes | None = None
    unset: Sequence[str] | None = None
    expires_at: datetime | EllipsisType | None = ...
    ttl: timedelta | None = None
    limit: int | None = None
    dry_run: bool = False
    everything: bool = False

    @property
    def repeatable(self) -> bool:
        """Only a count: a repetition would change more than `limit`, and not count what the first request changed."""
        return self.dry_run

    def request(self) -> HttpRequest:
        changes = json_of_changes(self.set, self.unset, self.expires_at, self.ttl)
        return _post(self.place, "update", {**_selection(self), **changes})

    def answer(self, response: HttpResponse) -> Changed:
        return _changed(response)


@dataclass(frozen=True, slots=True)
class DeleteWhere(Operation[Changed]):
    """
    Delete all points that match, at most 100,000 in one step: repeat while there are `more`.

    `dry_run` only counts. An empty filter is refused unless `everything` is meant.
    """

    place: Place
    filter: FilterLike
    _: KW_ONLY
    limit: int | None = None
    dry_run: bool = False
    everything: bool = False

    @property
    def repeatable(self) -> bool:
        """Only a count: a repetition would change more than `limit`, and not count what the first request changed."""
        return self.dry_run

    def request(self) -> HttpRequest:
        return _post(self.place, "delete", _selection(self))

    def answer(self, response: HttpResponse) -> Changed:
        return _changed(response)


def _post(place: Place, name: str, body: Json) -> HttpRequest:
    return HttpRequest("POST", f"{place.path}/points/{name}", to_json(body))


def _filter(filter: FilterLike | None) -> dict[str, Json]:
    return {} if filter is None else {"filter": json_of_filter(filter)}


def _selection(operation: UpdateWhere | DeleteWhere) -> dict[str, Json]:
    body = _filter(operation.filter)
    if operation.limit is not None:
        body["limit"] = operation.limit
    if operation.dry_run:
        body["dry_run"] = True
    if operation.everything:
        body["everything"] = True
    return body


def _changed(response: HttpResponse) -> Changed:
    json = response.json
    return Changed(json["changed"], json["more"])
