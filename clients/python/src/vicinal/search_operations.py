"""Searches, and the operations by filter: list, count, facets, update and delete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from types import EllipsisType

from .clusters import Consistency
from .errors import InvalidArgumentError
from .filters import FilterLike, json_of_filter
from .operation import HttpRequest, HttpResponse, Operation, Place
from .point_operations import json_of_changes
from .points import (
    USUAL_LISTED,
    Include,
    Metric,
    Query,
    SearchResult,
    StoredPoint,
    check_include,
    listed_of,
    result_of,
)
from .values import Attributes, AttributeValue, Json, check_whole, decode_value, texts_of, to_json
from .vectors import Text, VectorLike

_PARTS_OF_ANSWER = ("hits", "profile", "next_cursor", "groups")
"""The fields of an answer beside the ids, in the order of the parameters of `result_of`."""


@dataclass(frozen=True, slots=True)
class Search(Query, Operation[SearchResult]):
    """
    Find the points near a vector, or near the stored point with an id, which is not returned. For a service with
    embeddings, also near a `Text`.

    With a `filter`, only matching points are found: as many as there are, up to `limit`. `exact` compares with every
    matching point. `max_distance` leaves out points that are farther away, in the units of the metric. Hits have
    distance and payload unless `include` says otherwise; None asks for ids only. With `profile`, the answer describes
    how the search was run. `words`, `balance`, `cursor` and `statistics` are those of `Query`; `boost`, `like`,
    `unlike`, `diversity`, `group_by`, `rerank` and `on_error` are those of `AnswerShape`.

    For clusters: `consistency` is how up to date the answer must be; by default as the client's. Any other service
    ignores it.
    """

    near: VectorLike | str | Text | None = field(default=None, kw_only=False)
    metric: Metric | None = field(default=None, kw_only=False)
    _: KW_ONLY
    consistency: Consistency | None = None

    def request(self) -> HttpRequest:
        return _post(self.place, "search", self.to_json())

    def answer(self, response: HttpResponse) -> SearchResult:
        json = response.json
        return result_of(self, json["results"], *(json.get(name) for name in _PARTS_OF_ANSWER))


@dataclass(frozen=True, slots=True)
class SearchBatch(Operation[list[SearchResult]]):
    """
    Answer every query, or none when one of them is invalid. `Query.for_each` turns rows of an array into queries.

    `consistency` is that of `search`, for all queries together.
    """

    queries: Sequence[Query]
    _: KW_ONLY
    consistency: Consistency | None = None

    def __post_init__(self) -> None:
        if isinstance(self.queries, Query):
            raise InvalidArgumentError("queries is a Query: a list is needed")
        for index, query in enumerate(self.queries):
            if not isinstance(query, Query):
                raise InvalidArgumentError(f"queries[{index}] is a {type(query).__name__}: a Query is needed")

    def request(self) -> HttpRequest:
        return _post(self.place, "search/batch", {"queries": [query.to_json() for query in self.queries]})

    def answer(self, response: HttpResponse) -> list[SearchResult]:
        json = response.json
        nothing = [None] * len(self.queries)
        lists = (json.get(name, nothing) for name in _PARTS_OF_ANSWER)
        return [result_of(*parts) for parts in zip(self.queries, json["results"], *lists, strict=True)]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of points in the order of their insertion. Without a cursor, it is the last page."""

    points: list[StoredPoint]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ListPoints(Operation[Page]):
    """
    Return one page of the matching points, in the order of their insertion; `iterate` reads all pages.

    Points have their payload unless `include` says otherwise; None asks for ids only.

    `consistency` is that of `search`.
    """

    filter: FilterLike | None = None
    _: KW_ONLY
    limit: int = 100
    cursor: str | None = None
    include: Include | None = USUAL_LISTED
    consistency: Consistency | None = None

    def __post_init__(self) -> None:
        check_whole(self.limit, "limit", 1)
        check_include(self.include)

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
    Return how many points match; without a filter, the number of all points.

    `consistency` is that of `search`.
    """

    filter: FilterLike | None = None
    _: KW_ONLY
    consistency: Consistency | None = None

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
    Return the most frequent values at each path, with the number of matching points that have each.

    `consistency` is that of `search`.
    """

    paths: Sequence[str]
    _: KW_ONLY
    filter: FilterLike | None = None
    limit: int | None = None
    consistency: Consistency | None = None

    def __post_init__(self) -> None:
        if self.limit is not None:
            check_whole(self.limit, "limit", 1)

    def request(self) -> HttpRequest:
        body: dict[str, Json] = {**_filter(self.filter), "paths": texts_of(self.paths, "paths")}
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
    """How many points were changed in one step, and whether more points match."""

    changed: int
    more: bool


@dataclass(frozen=True, slots=True)
class UpdateWhere(Operation[Changed]):
    """
    Change all matching points, at most 100,000 in one step: repeat while there are `more`.

    If you repeat it, the filter must no longer match changed points. `dry_run` only counts. A filter that
    matches every point is refused unless `everything` is true.
    """

    filter: FilterLike
    _: KW_ONLY
    set: Attributes | None = None
    unset: Sequence[str] | None = None
    expires_at: datetime | EllipsisType | None = ...
    ttl: timedelta | None = None
    limit: int | None = None
    dry_run: bool = False
    everything: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None:
            check_whole(self.limit, "limit", 1)

    @property
    def repeatable(self) -> bool:
        """True for a dry run only: a repetition would change more than `limit`, and not count earlier changes."""
        return self.dry_run

    def request(self) -> HttpRequest:
        changes = json_of_changes(self.set, self.unset, self.expires_at, self.ttl)
        return _post(self.place, "update", {**_selection(self), **changes})

    def answer(self, response: HttpResponse) -> Changed:
        return _changed(response)


@dataclass(frozen=True, slots=True)
class DeleteWhere(Operation[Changed]):
    """
    Delete all matching points, at most 100,000 in one step: repeat while there are `more`.

    `dry_run` only counts. A filter that matches every point is refused unless `everything` is true.
    """

    filter: FilterLike
    _: KW_ONLY
    limit: int | None = None
    dry_run: bool = False
    everything: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None:
            check_whole(self.limit, "limit", 1)

    @property
    def repeatable(self) -> bool:
        """True for a dry run only: a repetition would change more than `limit`, and not count earlier changes."""
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
