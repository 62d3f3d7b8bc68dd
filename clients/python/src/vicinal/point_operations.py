"""The operations on points, except searches and those by filter."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from types import EllipsisType
from urllib.parse import quote

from .clusters import Consistency
from .columns import Columns
from .errors import VicinalError, error_of_status
from .operation import HttpRequest, HttpResponse, Operation, Place
from .points import (
    ContentType,
    NewPoint,
    OnConflict,
    Point,
    When,
    check_attributes,
    check_expiry,
    json_of_when,
    point_of,
    write_each,
)
from .values import Attributes, Json, encode_moment, encode_value, texts_of, to_json
from .vectors import Text, VectorLike, json_of_vector

Points = Columns | Iterable[NewPoint]


@dataclass(frozen=True, slots=True)
class Insert(Operation[str]):
    """
    Store a point and return its id, once it is durable and searchable. A service with embeddings embeds a `Text` in
    place of the vector; for None, it embeds the content.

    The service assigns an id unless one is given. `on_conflict` says what to do if the id exists: "error" (the
    default), "replace" or "skip". A repeated insert with the same idempotency key stores nothing and returns the same
    id. By default, each call makes a new key, so a retry never stores a point twice.
    """

    vector: VectorLike | Text | None
    content: str
    _: KW_ONLY
    attributes: Attributes | None = None
    content_type: ContentType = "Text"
    id: str | None = None
    on_conflict: OnConflict | None = None
    expires_at: datetime | None = None
    ttl: timedelta | None = None
    idempotency_key: str | None = None

    def request(self) -> HttpRequest:
        point = NewPoint(
            vector=self.vector,
            content=self.content,
            content_type=self.content_type,
            attributes=self.attributes,
            id=self.id,
            on_conflict=self.on_conflict,
            expires_at=self.expires_at,
            ttl=self.ttl,
        )
        return _insert_request(self.place, "/points", point.to_json(), self.idempotency_key)

    def answer(self, response: HttpResponse) -> str:
        id: str = response.json["point_id"]
        return id


@dataclass(frozen=True, slots=True)
class InsertBatch(Operation[list[str]]):
    """
    Store all points or none, and return their ids in order, once they are durable and searchable.

    `points` are `NewPoint`s, or `Columns` for arrays and data frames. For more points than fit into a request (64 MiB
    by default), use `bulk_insert`. As with `insert`, a retry never stores points twice.
    """

    points: Points
    _: KW_ONLY
    idempotency_key: str | None = None

    def request(self) -> HttpRequest:
        return _insert_request(self.place, "/points/batch", _batch(self.points), self.idempotency_key)

    def answer(self, response: HttpResponse) -> list[str]:
        ids: list[str] = response.json["point_ids"]
        return ids


@dataclass(frozen=True, slots=True)
class ItemError:
    """Why one point of a batch was not stored."""

    index: int
    error: VicinalError


@dataclass(frozen=True, slots=True)
class PartlyInserted:
    """The outcome of a batch: ids in the order of the points, None for points that were refused."""

    ids: list[str | None]
    errors: list[ItemError]

    def all_ids(self) -> list[str]:
        """Return the ids; raise the error of the first point that was refused."""
        if self.errors:
            raise self.errors[0].error
        return [id for id in self.ids if id is not None]


@dataclass(frozen=True, slots=True)
class InsertValid(Operation[PartlyInserted]):
    """Store the valid points, and report why the others were not stored."""

    points: Points
    _: KW_ONLY
    idempotency_key: str | None = None

    def request(self) -> HttpRequest:
        body = {**_batch(self.points), "on_error": "continue"}
        return _insert_request(self.place, "/points/batch", body, self.idempotency_key)

    def answer(self, response: HttpResponse) -> PartlyInserted:
        json = response.json
        errors = [
            ItemError(error["index"], error_of_status(error["status"], error["message"]))
            for error in json.get("errors", [])
        ]
        return PartlyInserted(json["point_ids"], errors)


@dataclass(frozen=True, slots=True)
class Get(Operation[Point]):
    """
    Return a point, or raise `NotFoundError`. `with_version` also returns its version. `consistency` is how up to date
    the answer of a cluster must be; by default as the client's.
    """

    id: str
    _: KW_ONLY
    with_version: bool = False
    consistency: Consistency | None = None

    def request(self) -> HttpRequest:
        return HttpRequest("GET", _path_of(self.place, self.id) + ("?version=true" if self.with_version else ""))

    def answer(self, response: HttpResponse) -> Point:
        return point_of(response.json)


@dataclass(frozen=True, slots=True)
class Delete(Operation[None]):
    """Delete a point. A missing point is not an error."""

    id: str

    def request(self) -> HttpRequest:
        return HttpRequest("DELETE", _path_of(self.place, self.id))

    def answer(self, response: HttpResponse) -> None:
        """Return nothing."""


@dataclass(frozen=True, slots=True)
class PutResult:
    """The result of a put: the point's new version, and whether the point was created."""

    id: str
    version: int
    created: bool


@dataclass(frozen=True, slots=True)
class Put(Operation[PutResult]):
    """Store a point under an id, and replace the point that has it; only if the stored point meets `when`."""

    id: str
    vector: VectorLike | Text | None
    content: str
    _: KW_ONLY
    attributes: Attributes | None = None
    content_type: ContentType = "Text"
    expires_at: datetime | None = None
    ttl: timedelta | None = None
    when: When | None = None

    @property
    def repeatable(self) -> bool:
        """False with a condition: if the first try took effect, its repetition would fail."""
        return self.when is None

    def request(self) -> HttpRequest:
        point = NewPoint(
            vector=self.vector,
            content=self.content,
            content_type=self.content_type,
            attributes=self.attributes,
            expires_at=self.expires_at,
            ttl=self.ttl,
        )
        when = {} if self.when is None else {"when": json_of_when(self.when)}
        return HttpRequest("PUT", _path_of(self.place, self.id), to_json({**point.to_json(), **when}))

    def answer(self, response: HttpResponse) -> PutResult:
        json = response.json
        return PutResult(json["id"], json["version"], json["created"])


@dataclass(frozen=True, slots=True)
class Patch(Operation[int]):
    """
    Change parts of a point and return its new version; only if the point meets `when`.

    `set` and `unset` take paths like `a.b`. `expires_at=None` removes the expiry; by default it is not changed. For a
    service with embeddings, the vector may be a `Text`. A new content alone does not change the vector.
    """

    id: str
    _: KW_ONLY
    set: Attributes | None = None
    unset: Sequence[str] | None = None
    content: str | None = None
    content_type: ContentType | None = None
    vector: VectorLike | Text | None = None
    expires_at: datetime | EllipsisType | None = ...
    ttl: timedelta | None = None
    when: When | None = None

    @property
    def repeatable(self) -> bool:
        """False with a condition: if the first try took effect, its repetition would fail."""
        return self.when is None

    def request(self) -> HttpRequest:
        body = json_of_changes(self.set, self.unset, self.expires_at, self.ttl)
        if self.content is not None:
            body["content"] = self.content
        if self.content_type is not None:
            body["content_type"] = self.content_type
        body.update(json_of_vector(self.vector))
        if self.when is not None:
            body["when"] = json_of_when(self.when)
        return HttpRequest("PATCH", _path_of(self.place, self.id), to_json(body))

    def answer(self, response: HttpResponse) -> int:
        version: int = response.json["version"]
        return version


def json_of_changes(
    set: Attributes | None,
    unset: Sequence[str] | None,
    expires_at: datetime | EllipsisType | None,
    ttl: timedelta | None,
) -> dict[str, Json]:
    """Return the JSON of changes of a payload."""
    check_attributes(set, "set")
    check_expiry(None if expires_at is ... else expires_at, ttl)
    body: dict[str, Json] = {}
    if set is not None:
        body["set"] = encode_value(set, "set")
    if unset is not None:
        body["unset"] = texts_of(unset, "unset")
    if expires_at is None:
        body["expires_at"] = None
    elif isinstance(expires_at, datetime):
        body["expires_at"] = encode_moment(expires_at, "expires_at")
    if ttl is not None:
        body["ttl_seconds"] = ttl.total_seconds()
    return body


def _batch(points: Points) -> dict[str, Json]:
    if not isinstance(points, Columns):
        return {"vectors": list(write_each(points, NewPoint.to_json))}
    # The vectors were checked together, so each row is written without another check.
    rows = zip(points.vectors, write_each(points.rows(), NewPoint.beside_vector), strict=True)
    return {"vectors": [{"vector": vector, **beside} for vector, beside in rows]}


def _insert_request(place: Place, path: str, body: Json, key: str | None) -> HttpRequest:
    headers = {"idempotency-key": str(uuid.uuid4()) if key is None else key}
    return HttpRequest("POST", place.path + path, to_json(body), headers)


def _path_of(place: Place, id: str) -> str:
    return f"{place.path}/points/{quote(str(id), safe='')}"
