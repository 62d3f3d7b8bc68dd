"""Converts each operation to a gRPC call: its method, its message, and how to read its answer."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import singledispatch
from types import EllipsisType
from typing import Any, Generic, TypeVar, cast

from .. import access_operations as access
from .. import collection_operations as collections
from .. import evaluation as evaluations
from .. import point_operations as points
from .. import search_operations as searches
from .. import service_operations as service
from ..errors import InvalidArgumentError, NotReadyError, UnsupportedError, error_of_code
from ..filters import FilterLike
from ..operation import Operation, Place, check_name
from ..points import ContentType, Include, NewPoint, Point, SearchResult, StoredPoint, check_attributes, check_expiry
from ..target import check_header
from ..values import Attributes, check_choice, microseconds, texts_of
from ..vectors import Text, VectorLike
from .access import key_message, read_audit, read_key
from .batches import batch_message, read_ids
from .messages import (
    collection_settings,
    evaluate_message,
    include_message,
    name_map,
    new_point,
    payload_of,
    query_message,
    read_collection,
    read_evaluated,
    read_name_map,
    read_point,
    read_result,
    vector_field,
    when_message,
)
from .values import CONTENT_TYPES, attributes, filter_message, point_id, read_point_id, read_value
from .wire import (
    WireValue,
    fields,
    flag,
    message,
    read_bytes,
    read_text,
    read_unsigned,
    signed,
    text,
    texts,
    unsigned,
)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class GrpcCall(Generic[Result]):
    """A call. `read` converts the answer's message."""

    method: str
    message: bytes
    read: Callable[[bytes], Result]
    metadata: Sequence[tuple[str, str]] = ()


def call_of(operation: Operation[Result]) -> GrpcCall[Result]:
    """Return an operation as a call, or refuse values that no message can hold."""
    try:
        return cast(GrpcCall[Result], _call(operation))
    except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
        raise InvalidArgumentError(f"the request cannot be written as protobuf: {error!r}") from error


@singledispatch
def _call(operation: object) -> GrpcCall[Any]:
    raise UnsupportedError(f"{type(operation).__name__} is not offered over gRPC: use HTTP")


@_call.register
def _insert(operation: points.Insert) -> GrpcCall[str]:
    point = NewPoint(
        vector=operation.vector,
        content=operation.content,
        content_type=operation.content_type,
        attributes=operation.attributes,
        id=operation.id,
        on_conflict=operation.on_conflict,
        expires_at=operation.expires_at,
        ttl=operation.ttl,
    )
    return _keyed("InsertVector", operation.place, new_point(point), read_point_id, operation.idempotency_key)


@_call.register
def _insert_batch(operation: points.InsertBatch) -> GrpcCall[list[str]]:
    body = batch_message(operation.points)
    return _keyed("InsertVectorsBatch", operation.place, body, read_ids, operation.idempotency_key)


@_call.register
def _insert_valid(operation: points.InsertValid) -> GrpcCall[points.PartlyInserted]:
    def read(data: bytes) -> points.PartlyInserted:
        ids = [read_point_id(read_bytes(value)) or None for number, value in fields(data) if number == 1]
        errors = [_item_error(read_bytes(value)) for number, value in fields(data) if number == 2]
        return points.PartlyInserted(ids, errors)

    body = batch_message(operation.points) + flag(2, True)
    return _keyed("InsertVectorsBatch", operation.place, body, read, operation.idempotency_key)


@_call.register
def _get(operation: points.Get) -> GrpcCall[Point]:
    def read(data: bytes) -> Point:
        return Point(**read_point(data, Include(payload=True)))

    version = [("version", "true")] if operation.with_version else []
    return _at("GetPoint", operation.place, point_id(operation.id), read, *version)


@_call.register
def _delete(operation: points.Delete) -> GrpcCall[None]:
    return _at("DeletePoint", operation.place, point_id(operation.id), _nothing)


@_call.register
def _put(operation: points.Put) -> GrpcCall[points.PutResult]:
    def read(data: bytes) -> points.PutResult:
        parts = dict(fields(data))
        return points.PutResult(
            read_point_id(read_bytes(parts[1])), read_unsigned(parts[2]), bool(read_unsigned(parts.get(3, 0)))
        )

    stored = payload_of(
        NewPoint(
            content=operation.content,
            content_type=operation.content_type,
            attributes=operation.attributes,
            expires_at=operation.expires_at,
            ttl=operation.ttl,
        )
    )
    when = b"" if operation.when is None else message(4, when_message(operation.when))
    target = message(1, point_id(operation.id))
    body = target + vector_field(2, 5, operation.vector) + message(3, stored) + when
    return _at("PutPoint", operation.place, body, read)


@_call.register
def _patch(operation: points.Patch) -> GrpcCall[int]:
    patch = _patch_message(
        operation.set,
        operation.unset,
        operation.expires_at,
        operation.ttl,
        content=operation.content,
        content_type=operation.content_type,
        vector_values=operation.vector,
    )
    when = b"" if operation.when is None else message(3, when_message(operation.when))
    body = message(1, point_id(operation.id)) + message(2, patch) + when
    return _at("PatchPoint", operation.place, body, lambda data: read_unsigned(_part(data, 2, 0)))


@_call.register
def _search(operation: searches.Search) -> GrpcCall[SearchResult]:
    body = query_message(operation)
    return _at("SearchPoints", operation.place, body, lambda data: read_result(data, operation))


@_call.register
def _search_batch(operation: searches.SearchBatch) -> GrpcCall[list[SearchResult]]:
    def read(data: bytes) -> list[SearchResult]:
        results = [read_bytes(value) for number, value in fields(data) if number == 1]
        return [read_result(result, query) for result, query in zip(results, operation.queries, strict=True)]

    body = b"".join(message(1, query_message(query)) for query in operation.queries)
    return _at("SearchPointsBatch", operation.place, body, read)


@_call.register
def _list(operation: searches.ListPoints) -> GrpcCall[searches.Page]:
    def read(data: bytes) -> searches.Page:
        listed = [
            StoredPoint(**read_point(read_bytes(value), operation.include))
            for number, value in fields(data)
            if number == 1
        ]
        return searches.Page(listed, read_text(_part(data, 2, b"")) or None)

    body = b"".join(
        (
            _filter(operation.filter),
            unsigned(2, operation.limit),
            text(3, operation.cursor) if operation.cursor is not None else b"",
            message(4, include_message(operation.include or Include())),
        )
    )
    return _at("ListPoints", operation.place, body, read)


@_call.register
def _count(operation: searches.Count) -> GrpcCall[int]:
    return _at("CountPoints", operation.place, _filter(operation.filter), lambda data: read_unsigned(_part(data, 1, 0)))


@_call.register
def _facets(operation: searches.Facets) -> GrpcCall[dict[str, list[searches.FacetCount]]]:
    def read(data: bytes) -> dict[str, list[searches.FacetCount]]:
        return dict(_facet(read_bytes(value)) for number, value in fields(data) if number == 1)

    limit = b"" if operation.limit is None else unsigned(3, operation.limit)
    paths = texts(2, texts_of(operation.paths, "paths"))
    return _at("FacetPoints", operation.place, _filter(operation.filter) + paths + limit, read)


@_call.register
def _evaluate(operation: evaluations.Evaluate) -> GrpcCall[evaluations.EvaluatedPoints]:
    return _at("EvaluatePoints", operation.place, evaluate_message(operation), read_evaluated)


@_call.register
def _update_where(operation: searches.UpdateWhere) -> GrpcCall[searches.Changed]:
    patch = _patch_message(operation.set, operation.unset, operation.expires_at, operation.ttl)
    return _at("UpdatePoints", operation.place, _selection(operation) + message(2, patch), _changed)


@_call.register
def _delete_where(operation: searches.DeleteWhere) -> GrpcCall[searches.Changed]:
    return _at("DeletePoints", operation.place, _selection(operation), _changed)


@_call.register
def _list_collections(
    operation: collections.ListCollections,
) -> GrpcCall[list[collections.CollectionInfo]]:
    def read(data: bytes) -> list[collections.CollectionInfo]:
        return [read_collection(read_bytes(value)) for number, value in fields(data) if number == 1]

    return _at("ListCollections", Place(), b"", read)


@_call.register
def _get_collection(operation: collections.GetCollection) -> GrpcCall[collections.CollectionInfo]:
    return _at("GetCollection", Place(), text(1, check_name(operation.name)), read_collection)


@_call.register
def _put_collection(operation: collections.PutCollection) -> GrpcCall[collections.PutCollectionResult]:
    def read(data: bytes) -> collections.PutCollectionResult:
        info = read_collection(read_bytes(_part(data, 1, b"")))
        return collections.PutCollectionResult(info, bool(read_unsigned(_part(data, 2, 0))))

    settings = collection_settings(check_name(operation.name), operation)
    return _at("PutCollection", Place(), settings, read)


@_call.register
def _delete_collection(operation: collections.DeleteCollection) -> GrpcCall[None]:
    return _at("DeleteCollection", Place(), text(1, check_name(operation.name)), _nothing)


@_call.register
def _set_aliases(operation: collections.SetAliases) -> GrpcCall[dict[str, str]]:
    body = name_map(1, operation.set or {}) + texts(2, texts_of(operation.remove, "remove"))
    return _at("SetAliases", Place(), body, lambda data: read_name_map(1, data))


@_call.register
def _audit(operation: access.Audit) -> GrpcCall[access.AuditPage]:
    body = b"".join(
        (
            signed(1, microseconds(operation.since)) if operation.since is not None else b"",
            signed(2, microseconds(operation.until)) if operation.until is not None else b"",
            text(3, operation.key or ""),
            text(4, operation.operation or ""),
            text(5, operation.collection or ""),
            flag(6, operation.allowed) if operation.allowed is not None else b"",
            unsigned(7, operation.limit),
            text(8, operation.cursor or ""),
        )
    )
    return _at("ListAudit", Place(), body, read_audit)


@_call.register
def _create_key(operation: access.CreateKey) -> GrpcCall[access.CreatedKey]:
    def read(data: bytes) -> access.CreatedKey:
        return access.CreatedKey(read_text(_part(data, 2, b"")), read_key(read_bytes(_part(data, 1, b""))))

    return _at("CreateKey", Place(), key_message(operation), read)


@_call.register
def _list_keys(operation: access.ListKeys) -> GrpcCall[list[access.KeyInfo]]:
    def read(data: bytes) -> list[access.KeyInfo]:
        return [read_key(read_bytes(value)) for number, value in fields(data) if number == 1]

    return _at("ListKeys", Place(), b"", read)


@_call.register
def _revoke_key(operation: access.RevokeKey) -> GrpcCall[None]:
    return _at("RevokeKey", Place(), text(1, operation.name), _nothing)


_HEALTH_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = 1


@_call.register
def _health(operation: service.Health) -> GrpcCall[str]:
    return GrpcCall(_HEALTH_CHECK, b"", lambda data: "OK")


@_call.register
def _ready(operation: service.Ready) -> GrpcCall[str]:
    def read(data: bytes) -> str:
        if read_unsigned(_part(data, 1, 0)) != _SERVING:
            raise NotReadyError("the stored points are still loading")
        return "ready"

    return GrpcCall(_HEALTH_CHECK, b"", read)


def _at(
    method: str, place: Place, body: bytes, read: Callable[[bytes], Result], *more: tuple[str, str]
) -> GrpcCall[Result]:
    collection = [] if place.collection is None else [("collection", place.collection)]
    return GrpcCall(f"/vectordb.VectorDB/{method}", body, read, [*collection, *more])


def _keyed(
    method: str, place: Place, body: bytes, read: Callable[[bytes], Result], key: str | None
) -> GrpcCall[Result]:
    name = "idempotency-key"
    return _at(method, place, body, read, (name, str(uuid.uuid4()) if key is None else check_header(name, key)))


def _filter(filter: FilterLike | None) -> bytes:
    return b"" if filter is None else message(1, filter_message(filter))


def _selection(operation: searches.UpdateWhere | searches.DeleteWhere) -> bytes:
    return b"".join(
        (
            _filter(operation.filter),
            unsigned(3, operation.limit) if operation.limit is not None else b"",
            flag(4, True) if operation.dry_run else b"",
            flag(5, True) if operation.everything else b"",
        )
    )


def _patch_message(
    set: Attributes | None,
    unset: Sequence[str] | None,
    expires_at: datetime | EllipsisType | None,
    ttl: timedelta | None,
    *,
    content: str | None = None,
    content_type: ContentType | None = None,
    vector_values: VectorLike | Text | None = None,
) -> bytes:
    # Protobuf has no null, so the paths to remove are listed.
    check_attributes(set, "set")
    check_expiry(None if expires_at is ... else expires_at, ttl)
    if content_type is not None:
        check_choice(content_type, CONTENT_TYPES, "content_type")
    removed = [*texts_of(unset or (), "unset"), *(path for path, value in (set or {}).items() if value is None)]
    if expires_at is None:
        removed.append("$expires_at")
    if ttl is not None:
        expires_at = datetime.now(UTC) + ttl
    return b"".join(
        (
            message(1, attributes(set, "set")) if set is not None else b"",
            texts(2, removed),
            text(3, content) if content is not None else b"",
            unsigned(4, CONTENT_TYPES.index(content_type)) if content_type is not None else b"",
            signed(5, microseconds(expires_at)) if isinstance(expires_at, datetime) else b"",
            vector_field(6, 7, vector_values),
        )
    )


def _item_error(data: bytes) -> points.ItemError:
    parts = dict(fields(data))
    words = read_text(parts.get(3, b""))
    return points.ItemError(read_unsigned(parts.get(1, 0)), error_of_code(read_unsigned(parts.get(2, 0)), words))


def _facet(data: bytes) -> tuple[str, list[searches.FacetCount]]:
    counts = [dict(fields(read_bytes(value))) for number, value in fields(data) if number == 2]
    return (
        read_text(_part(data, 1, b"")),
        [searches.FacetCount(read_value(read_bytes(part[1])), read_unsigned(part[2])) for part in counts],
    )


def _changed(data: bytes) -> searches.Changed:
    return searches.Changed(read_unsigned(_part(data, 1, 0)), bool(read_unsigned(_part(data, 2, 0))))


def _part(data: bytes, number: int, default: WireValue) -> WireValue:
    return dict(fields(data)).get(number, default)


def _nothing(data: bytes) -> None:
    """Read an empty message."""
