"""Points, hits, and the parts of requests that describe them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np

from .answer_shape import AnswerShape
from .errors import InvalidArgumentError
from .filters import FilterLike, json_of_filter
from .values import (
    Attributes,
    AttributeValue,
    Json,
    check_choice,
    check_number,
    check_text,
    check_whole,
    decode_attributes,
    decode_moment,
    decode_value,
    encode_moment,
    encode_value,
    texts_of,
)
from .vectors import MatrixLike, Text, Vector, VectorLike, json_of_vector, matrix_of

ContentType: TypeAlias = Literal["Text", "Image"]
Metric: TypeAlias = Literal["Euclidean", "Manhattan", "Hamming", "Cosine"]
OnConflict: TypeAlias = Literal["error", "replace", "skip"]
"""What an insert does if the id exists."""

Written = TypeVar("Written")

_CONTENT_TYPES, _METRICS, _CONFLICT_RULES = get_args(ContentType), get_args(Metric), get_args(OnConflict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPoint:
    """
    A point to store. Without an id, the service assigns one. A `ttl` counts from the service's clock over HTTP, and
    from this machine's clock over gRPC.

    A service with embeddings embeds a `Text` in place of the vector; for None, it embeds the content.
    """

    vector: VectorLike | Text | None = None
    content: str
    content_type: ContentType = "Text"
    attributes: Attributes | None = None
    id: str | None = None
    on_conflict: OnConflict | None = None
    expires_at: datetime | None = None
    ttl: timedelta | None = None

    def __post_init__(self) -> None:
        check_text(self.content, "content")
        check_attributes(self.attributes, "attributes")
        check_expiry(self.expires_at, self.ttl)
        check_choice(self.content_type, _CONTENT_TYPES, "content_type")
        if self.on_conflict is not None:
            check_choice(self.on_conflict, _CONFLICT_RULES, "on_conflict")

    def to_json(self) -> dict[str, Json]:
        """Return what the service reads."""
        return {**json_of_vector(self.vector), **self.beside_vector()}

    def beside_vector(self) -> dict[str, Json]:
        """Return the JSON of the point without its vector."""
        json: dict[str, Json] = {"payload": self._payload()}
        if self.id is not None:
            json["id"] = str(self.id)
        if self.on_conflict is not None:
            json["on_conflict"] = self.on_conflict
        return json

    def _payload(self) -> dict[str, Json]:
        payload: dict[str, Json] = {"content_type": self.content_type, "content": self.content}
        if self.attributes:
            payload["attributes"] = encode_value(self.attributes, "attributes")
        if self.expires_at is not None:
            payload["expires_at"] = encode_moment(self.expires_at, "expires_at")
        if self.ttl is not None:
            payload["ttl_seconds"] = self.ttl.total_seconds()
        return payload


def check_attributes(attributes: object, path: str) -> None:
    """Refuse attributes that are not a map."""
    if attributes is not None and not isinstance(attributes, Mapping):
        raise InvalidArgumentError(f"{path} is a {type(attributes).__name__}: a dict is needed")


def check_expiry(expires_at: datetime | None, ttl: timedelta | None) -> None:
    """Refuse what is not the time at which a point expires."""
    if expires_at is not None:
        encode_moment(expires_at, "expires_at")
    if ttl is None:
        return
    if expires_at is not None:
        raise InvalidArgumentError("expires_at and ttl are both given: a point has one of them")
    if not isinstance(ttl, timedelta) or ttl <= timedelta(0):
        raise InvalidArgumentError(f"ttl is {ttl!r}: a timedelta greater than 0 is needed")


def write_each(points: Iterable[NewPoint], write: Callable[[NewPoint], Written]) -> Iterator[Written]:
    """Yield the points of a batch as they are sent. An error names the point as the service does."""
    if isinstance(points, NewPoint):
        raise InvalidArgumentError("points is a NewPoint: a list is needed")
    for index, point in enumerate(points):
        if not isinstance(point, NewPoint):
            raise InvalidArgumentError(f"vectors[{index}] is a {type(point).__name__}: a NewPoint is needed")
        try:
            yield write(point)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"vectors[{index}].{error}") from error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredPoint:
    """A point in an answer. Fields that were not asked for are None, or an empty dict."""

    id: str
    vector: Vector | None = None
    content: str | None = None
    content_type: ContentType | None = None
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    expires_at: datetime | None = None
    version: int | None = None
    """The sequence number of the point's last change."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Point(StoredPoint):
    """A complete point. `version` is only set if it was asked for."""

    vector: Vector
    content: str
    content_type: ContentType


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hit(StoredPoint):
    """A point that a search found. A smaller distance is nearer."""

    distance: float | None = None
    score: float | None = None
    """From 0 to 1, of a search by words, with boosts or with reranking. Larger is better."""
    words: float | None = None
    """The BM25 score of the words."""
    highlight: list[Highlight] = field(default_factory=list)
    """Where the words are in the texts."""
    rerank: float | None = None
    """What the service's reranking endpoint says."""


@dataclass(frozen=True, slots=True)
class Highlight:
    """A part of a text in which the words of a query are: `parts` are plain and found in turn, the first plain."""

    path: str
    parts: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Include:
    """What an answer has in addition to ids. `attributes` selects attributes by path, with or without the payload."""

    distance: bool = False
    payload: bool = False
    attributes: bool | Sequence[str] = False
    vector: bool = False
    version: bool = False
    scores: bool = False
    highlight: bool = False

    def to_json(self) -> dict[str, Json]:
        """Return the JSON, without fields that are false."""
        names = ("distance", "payload", "vector", "version", "scores", "highlight")
        flags = {name: True for name in names if getattr(self, name)}
        if self.attributes is False:
            return {**flags}
        return {**flags, "attributes": self.attributes is True or texts_of(self.attributes, "include.attributes")}


def check_include(include: Include | None) -> None:
    """Refuse what is not an Include, like a dict."""
    if include is not None and not isinstance(include, Include):
        raise InvalidArgumentError(f"include is a {type(include).__name__}: an Include is needed")


def check_words(words: object, path: str = "words") -> None:
    """Refuse what are not words of a query."""
    if words is not None and words is not True:
        check_text(words, path)


USUAL_HIT = Include(distance=True, payload=True)
"""What a search returns of each hit by default."""
USUAL_WORDS = Include(payload=True, scores=True)
"""What a search by words alone returns of each hit by default."""
USUAL_RANKED = Include(distance=True, payload=True, scores=True)
"""What a search by words and a vector, or with boosts or reranking, returns of each hit by default."""
USUAL_LISTED = Include(payload=True)
"""What a list returns of each point by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(AnswerShape):
    """
    A search near a vector, or near the stored point with an id, which is not returned. For a service with embeddings,
    also near a `Text`.

    `words` rank, alone or together with `near`: True stands for those of the `Text`. `balance` is what the vector
    counts beside them. `statistics` is a filter of the points in which words are counted. `cursor` is empty for the
    first of several pages, then the `next_cursor` of the page before. Only `near`, `like` and `unlike` need a `metric`.
    The other fields are those of `AnswerShape`.
    """

    near: VectorLike | str | Text | None = None
    metric: Metric | None = None
    limit: int = 10
    ef: int | None = None
    filter: FilterLike | None = None
    include: Include | None = USUAL_HIT
    exact: bool = False
    max_distance: float | None = None
    profile: bool = False
    words: str | Literal[True] | None = None
    balance: float | None = None
    cursor: str | None = None
    statistics: FilterLike | None = None

    def __post_init__(self) -> None:
        if self.metric is not None or self.words is None or self._has_target:
            check_choice(self.metric, _METRICS, "similarity")
        check_whole(self.limit, "limit", 1)
        if self.ef is not None:
            check_whole(self.ef, "ef")
        for name in ("balance", "max_distance"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name)
        check_words(self.words)
        if self.cursor is not None:
            check_text(self.cursor, "cursor")
        check_include(self.include)
        self.check_shape()

    def to_json(self) -> dict[str, Json]:
        """Return the JSON, without fields that have their defaults."""
        json: dict[str, Json] = {"limit": self.limit, **self.json_of_shape()}
        if self.metric is not None:
            json["similarity"] = self.metric
        if isinstance(self.near, str):
            json["id"] = self.near
        else:
            json.update(json_of_vector(self.near))
        if self.ef is not None:
            json["ef"] = self.ef
        if self.filter is not None:
            json["filter"] = json_of_filter(self.filter)
        if self.included is not None:
            json["include"] = self.included.to_json()
        if self.exact:
            json["exact"] = True
        if self.max_distance is not None:
            json["max_distance"] = encode_value(self.max_distance, "max_distance")
        if self.profile:
            json["profile"] = True
        if self.words is not None:
            json["words"] = self.words
        if self.balance is not None:
            json["balance"] = encode_value(self.balance, "balance")
        if self.cursor is not None:
            json["cursor"] = self.cursor
        if self.statistics is not None:
            json["statistics"] = {"filter": json_of_filter(self.statistics)}
        return json

    @property
    def included(self) -> Include | None:
        """What the answer includes: without a vector, there is no distance."""
        is_scored = self.words is not None or bool(self.boost) or self.rerank is not None
        if self.include is USUAL_HIT and is_scored:
            return USUAL_RANKED if self._has_target else USUAL_WORDS
        return self.include

    @property
    def _has_target(self) -> bool:
        return self.near is not None or self.has_examples

    def for_each(self, vectors: MatrixLike) -> list[Query]:
        """Return one copy of this query for each vector, that is, for each row."""
        return [replace(self, near=row) for row in matrix_of(vectors)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How a query was answered, and why in this way."""

    plan: str
    reason: str
    points: int
    matching: int
    compared: int
    measured: int
    ef: int
    ef_multiplier: int
    filter_us: int
    queue_us: int
    search_us: int
    recall_estimate: float | None = None
    steps: list[ProfileStep] = field(default_factory=list)
    """Of a query with words, or that shapes its answer."""


@dataclass(frozen=True, slots=True)
class ProfileStep:
    """A step of a search: how many points it has left, and its duration."""

    step: str
    points: int
    us: int


@dataclass(frozen=True, slots=True)
class HitGroup:
    """The hits with one value at the path of `group_by`."""

    value: AttributeValue
    hits: list[Hit]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The points that a search found, the best first. Without `include`, a hit has only its id."""

    hits: list[Hit]
    profile: Profile | None = None
    next_cursor: str | None = None
    """Of a query with `cursor`, if there are more results."""
    groups: list[HitGroup] = field(default_factory=list)
    """Of a query with `group_by`: `hits` has those of the first group, then those of the second, and so on."""

    @property
    def ids(self) -> list[str]:
        """The ids of the hits."""
        return [hit.id for hit in self.hits]


@dataclass(frozen=True, slots=True)
class IfVersion:
    """A condition of a write: the point has this version."""

    version: int

    def __post_init__(self) -> None:
        check_whole(self.version, "when.version")


@dataclass(frozen=True, slots=True)
class IfMatches:
    """A condition of a write: the point matches the filter."""

    filter: FilterLike


@dataclass(frozen=True, slots=True)
class IfAbsent:
    """A condition of a write: there is no point with this id."""


When: TypeAlias = IfVersion | IfMatches | IfAbsent


def json_of_when(when: When) -> dict[str, Json]:
    """Return what the service reads."""
    match when:
        case IfVersion(version):
            return {"version": version}
        case IfMatches(filter):
            return {"filter": json_of_filter(filter)}
        case IfAbsent():
            return {"absent": True}
    raise unknown_when(when)


def unknown_when(when: object) -> InvalidArgumentError:
    """Return the error for what is not a condition, like a dict."""
    return InvalidArgumentError(f"when is a {type(when).__name__}: IfVersion, IfMatches or IfAbsent is needed")


def point_of(json: Json) -> Point:
    """Return a complete point of an answer."""
    return Point(**_fields_of(json))


def listed_of(json: Json) -> StoredPoint:
    """Return a point of a list."""
    return StoredPoint(**_fields_of(json))


def result_of(
    query: Query,
    ids: Sequence[str],
    hits: Sequence[Json] | None,
    profile: Json | None,
    next_cursor: str | None,
    groups: Sequence[Json] | None,
) -> SearchResult:
    """Return the answer to one query. There are hits if the query has `include`."""
    if query.include is None:
        found = [Hit(id=id) for id in ids]
    else:
        found = [Hit(**_fields_of(hit), **_figures_of(hit)) for hit in hits or ()]
    counts = [(decode_value(group["value"]), group["count"]) for group in groups or ()]
    return SearchResult(found, None if profile is None else _profile_of(profile), next_cursor, groups_of(found, counts))


def groups_of(hits: list[Hit], counts: Iterable[tuple[AttributeValue, int]]) -> list[HitGroup]:
    """Return the groups of hits, of which the answer has the values and sizes."""
    rest = iter(hits)
    return [HitGroup(value, list(islice(rest, count))) for value, count in counts]


def _profile_of(json: Json) -> Profile:
    steps = [ProfileStep(**step) for step in json.get("steps", ())]
    return Profile(**{**json, "steps": steps})


def _figures_of(hit: Json) -> dict[str, Json]:
    return {
        # JSON has no decimal point in a whole number.
        **{name: float(hit[name]) for name in ("distance", "score", "words", "rerank") if name in hit},
        "highlight": [Highlight(each["path"], each["parts"]) for each in hit.get("highlight", ())],
    }


def _fields_of(json: Json) -> dict[str, Json]:
    payload = json.get("payload", {})
    vector = json.get("vector")
    expires_at = payload.get("expires_at")
    return {
        "id": json["id"],
        "vector": None if vector is None else np.array(vector, dtype=np.float32),
        "content": payload.get("content"),
        "content_type": payload.get("content_type"),
        "attributes": decode_attributes(payload.get("attributes", {})),
        "expires_at": None if expires_at is None else decode_moment(expires_at),
        "version": json.get("version"),
    }
