"""The messages about points and collections."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ..answer_shape import ON_ERROR_RULES, Boost
from ..collection_operations import CollectionInfo, Hnsw, PutCollection, Quotas, Words
from ..evaluation import Evaluate, EvaluatedPoints, Evaluation, Judgement, MeasuredSetting, Relevance
from ..points import (
    ContentType,
    Highlight,
    Hit,
    IfAbsent,
    IfMatches,
    IfVersion,
    Include,
    Metric,
    NewPoint,
    OnConflict,
    Profile,
    ProfileStep,
    Query,
    SearchResult,
    When,
    groups_of,
    unknown_when,
)
from ..values import Attributes, AttributeValue, Json, microseconds, moment_of, texts_of
from ..vectors import Text, VectorLike, vector_of
from .usual_hits import read_usual_hit
from .values import (
    CONTENT_TYPES,
    attributes,
    filter_message,
    point_id,
    read_attributes,
    read_point_id,
    read_value,
)
from .wire import (
    double,
    fields,
    flag,
    floats,
    message,
    read_bytes,
    read_double,
    read_floats,
    read_signed,
    read_text,
    read_unsigned,
    signed,
    text,
    texts,
    unsigned,
)

_METRICS: list[Metric] = ["Euclidean", "Manhattan", "Hamming", "Cosine"]
_CONFLICT_RULES: list[OnConflict] = ["error", "replace", "skip"]


def vector_field(number: int, text_number: int, values: VectorLike | Text | None) -> bytes:
    """Return the field with a DenseVector, or the field with a text to embed; empty for None."""
    if values is None:
        return b""
    if isinstance(values, Text):
        return text(text_number, values.value)
    return message(number, floats(1, vector_of(values)))


def read_vector(data: bytes) -> Any:
    """Return the vector of a DenseVector."""
    for number, value in fields(data):
        if number == 1:
            return read_floats(value)
    return read_floats(b"")


def payload(
    content: str,
    content_type: ContentType,
    values: Attributes | None,
    expires_at: datetime | None,
    ttl: timedelta | None,
) -> bytes:
    """Return a Payload. Protobuf has no ttl, so a ttl counts from this machine's clock."""
    if ttl is not None:
        expires_at = datetime.now(UTC) + ttl
    return b"".join(
        (
            unsigned(1, CONTENT_TYPES.index(content_type)),
            text(2, content),
            message(3, attributes(values, "attributes")) if values else b"",
            signed(4, microseconds(expires_at)) if expires_at is not None else b"",
        )
    )


def payload_of(point: NewPoint) -> bytes:
    """Return the Payload of a point."""
    return payload(point.content, point.content_type, point.attributes, point.expires_at, point.ttl)


def new_point(point: NewPoint) -> bytes:
    """Return an InsertVectorRequest."""
    return vector_field(1, 5, point.vector) + beside_vector(point)


def beside_vector(point: NewPoint) -> bytes:
    """Return the fields of an InsertVectorRequest that follow the vector."""
    return b"".join(
        (
            message(2, payload_of(point)),
            message(3, point_id(point.id)) if point.id is not None else b"",
            unsigned(4, _CONFLICT_RULES.index(point.on_conflict)) if point.on_conflict is not None else b"",
        )
    )


def include_message(include: Include) -> bytes:
    """Return an Include. Protobuf cannot ask for all attributes alone, so the payload is included, too."""
    paths = include.attributes
    return b"".join(
        (
            flag(1, include.distance),
            flag(2, include.payload or paths is True),
            texts(3, texts_of(paths, "include.attributes")) if not isinstance(paths, bool) else b"",
            flag(4, include.vector),
            flag(5, include.version),
            flag(6, include.scores),
            flag(7, include.highlight),
        )
    )


def query_message(query: Query) -> bytes:
    """Return a SearchRequest."""
    near, group = query.near, query.group_by
    return b"".join(
        (
            vector_field(1, 11, near) if near is not None and not isinstance(near, str) else b"",
            unsigned(2, _METRICS.index(query.metric)) if query.metric is not None else b"",
            unsigned(3, query.limit),
            unsigned(4, query.ef) if query.ef is not None else b"",
            message(5, filter_message(query.filter)) if query.filter is not None else b"",
            message(6, include_message(query.included)) if query.included is not None else b"",
            flag(7, True) if query.exact else b"",
            double(8, query.max_distance) if query.max_distance is not None else b"",
            message(9, point_id(near)) if isinstance(near, str) else b"",
            flag(10, True) if query.profile else b"",
            text(12, query.words) if isinstance(query.words, str) else b"",
            flag(13, True) if query.words is True else b"",
            double(14, query.balance) if query.balance is not None else b"",
            text(15, query.cursor) if query.cursor is not None else b"",
            *(message(16, _boost(boost)) for boost in query.boost or ()),
            *(message(17, point_id(id)) for id in query.like or ()),
            *(message(18, point_id(id)) for id in query.unlike or ()),
            double(19, query.diversity) if query.diversity is not None else b"",
            message(20, text(1, group.path) + unsigned(2, group.size)) if group is not None else b"",
            unsigned(21, query.rerank) if query.rerank is not None else b"",
            unsigned(22, ON_ERROR_RULES.index(query.on_error)) if query.on_error is not None else b"",
            message(23, filter_message(query.statistics)) if query.statistics is not None else b"",
        )
    )


def _boost(boost: Boost) -> bytes:
    recent = boost.recent
    return b"".join(
        (
            double(1, boost.weight),
            message(2, filter_message(boost.filter)) if boost.filter is not None else b"",
            message(3, text(1, recent.path) + text(2, recent.half_life)) if recent is not None else b"",
        )
    )


def when_message(when: When) -> bytes:
    """Return a Precondition."""
    match when:
        case IfVersion(version):
            return unsigned(1, version)
        case IfMatches(filter):
            return message(2, filter_message(filter))
        case IfAbsent():
            return flag(3, True)
    raise unknown_when(when)


def read_point(data: bytes, include: Include | None) -> dict[str, Json]:
    """
    Return the contents of a Point or a Hit, as the fields of its dataclass.

    :param include: what the request asked for; protobuf cannot distinguish an empty content from an absent one
    """
    found: dict[str, Json] = {}
    has_payload = include is not None and include.payload
    for number, value in fields(data):
        match number:
            case 1:
                found["id"] = read_point_id(read_bytes(value))
            case 2:
                found.update(_payload_of(read_bytes(value), has_payload))
            case 3:
                found["vector"] = read_vector(read_bytes(value))
            case 4:
                found["version"] = read_unsigned(value)
    return found


def _payload_of(data: bytes, is_whole: bool) -> dict[str, Json]:
    found: dict[str, Json] = {"content": "", "content_type": "Image"} if is_whole else {}
    for number, value in fields(data):
        match number:
            case 1 if is_whole:
                found["content_type"] = CONTENT_TYPES[read_unsigned(value)]
            case 2 if is_whole:
                found["content"] = read_text(value)
            case 3:
                found["attributes"] = read_attributes(read_bytes(value))
            case 4 if is_whole:
                found["expires_at"] = moment_of(read_signed(value))
    return found


def read_any_hit(data: bytes, include: Include) -> Hit:
    """Return a Hit. Except for the distance, its fields have the same order as those of a Point."""
    parts = dict(fields(data))
    found: dict[str, Json] = {"id": read_point_id(read_bytes(parts[1]))}
    if 2 in parts:
        found["distance"] = read_double(parts[2])
    if 3 in parts:
        found.update(_payload_of(read_bytes(parts[3]), include.payload))
    if 4 in parts:
        found["vector"] = read_vector(read_bytes(parts[4]))
    if 5 in parts:
        found["version"] = read_unsigned(parts[5])
    if 6 in parts:
        found["score"] = read_double(parts[6])
    if 7 in parts:
        found["words"] = read_double(parts[7])
    if 9 in parts:
        found["rerank"] = read_double(parts[9])
    highlight = [_highlight_of(read_bytes(value)) for number, value in fields(data) if number == 8]
    return Hit(**found, highlight=highlight)


def _highlight_of(data: bytes) -> Highlight:
    parts = [(number, read_text(value)) for number, value in fields(data)]
    path = next((value for number, value in parts if number == 1), "")
    return Highlight(path, [value for number, value in parts if number == 2])


def read_result(data: bytes, query: Query) -> SearchResult:
    """Return the contents of a SearchResponse."""
    hits: list[Hit] = []
    counts: list[tuple[AttributeValue, int]] = []
    profile = next_cursor = None
    include = query.included
    for number, value in fields(data):
        if number == 1 and include is None:
            hits.append(Hit(id=read_point_id(read_bytes(value))))
        elif number == 2 and include is not None:
            hit = read_bytes(value)
            usual = read_usual_hit(hit) if include.payload else None
            hits.append(usual or read_any_hit(hit, include))
        elif number == 3:
            profile = _profile_of(read_bytes(value))
        elif number == 4:
            next_cursor = read_text(value)
        elif number == 5:
            group = dict(fields(read_bytes(value)))
            counts.append((read_value(read_bytes(group[1])), read_unsigned(group.get(2, 0))))
    return SearchResult(hits, profile, next_cursor, groups_of(hits, counts))


_PROFILE_FIELDS = (
    *("points", "matching", "compared", "measured", "ef", "ef_multiplier", "filter_us", "queue_us", "search_us"),
)


def _profile_of(data: bytes) -> Profile:
    parts = dict(fields(data))
    numbers = {name: read_unsigned(parts.get(number, 0)) for number, name in enumerate(_PROFILE_FIELDS, 3)}
    return Profile(
        plan=read_text(parts.get(1, b"")),
        reason=read_text(parts.get(2, b"")),
        recall_estimate=read_double(parts[12]) if 12 in parts else None,
        steps=[_step_of(read_bytes(value)) for number, value in fields(data) if number == 13],
        **numbers,
    )


def _step_of(data: bytes) -> ProfileStep:
    parts = dict(fields(data))
    return ProfileStep(read_text(parts[1]), read_unsigned(parts.get(2, 0)), read_unsigned(parts.get(3, 0)))


def collection_settings(name: str, operation: PutCollection) -> bytes:
    """Return a PutCollectionRequest."""
    dimension, words, quotas = operation.dimension, operation.words, operation.quotas
    graph = operation.hnsw or Hnsw()
    settings = b"".join(
        unsigned(number, value) for number, value in enumerate((graph.m, graph.ef_construction), 1) if value is not None
    )
    return b"".join(
        (
            text(1, name),
            unsigned(2, dimension) if dimension is not None else b"",
            message(3, settings),
            message(4, _words(words)) if isinstance(words, Words) else b"",
            flag(5, True) if words is False else b"",
            message(6, _quotas(quotas)) if quotas is not None else b"",
        )
    )


def _quotas(quotas: Quotas) -> bytes:
    values = (quotas.points, quotas.bytes, quotas.requests_per_second, quotas.searches_in_flight)
    return b"".join(unsigned(number, value) for number, value in enumerate(values, 1) if value is not None)


def _quotas_of(data: bytes) -> Quotas:
    single = {number: read_unsigned(value) for number, value in fields(data)}
    return Quotas(
        points=single.get(1),
        bytes=single.get(2),
        requests_per_second=single.get(3),
        searches_in_flight=single.get(4),
    )


def evaluate_message(operation: Evaluate) -> bytes:
    """Return an EvaluateRequest."""
    return b"".join(
        (
            *(message(1, _judgement(judgement)) for judgement in operation.judgements),
            unsigned(2, operation.k),
            texts(3, operation.sweep),
            unsigned(4, _METRICS.index(operation.metric)) if operation.metric is not None else b"",
            double(5, operation.balance) if operation.balance is not None else b"",
            unsigned(6, operation.ef) if operation.ef is not None else b"",
            message(7, filter_message(operation.filter)) if operation.filter is not None else b"",
            *(message(8, _boost(boost)) for boost in operation.boost or ()),
            double(9, operation.diversity) if operation.diversity is not None else b"",
            unsigned(10, operation.rerank) if operation.rerank is not None else b"",
        )
    )


def _judgement(judgement: Judgement) -> bytes:
    relevant = (message(5, text(1, id) + double(2, grade)) for id, grade in judgement.relevant.items())
    return b"".join(
        (
            text(1, judgement.words) if isinstance(judgement.words, str) else b"",
            flag(2, True) if judgement.words is True else b"",
            vector_field(3, 4, judgement.near),
            *relevant,
        )
    )


def read_evaluated(data: bytes) -> EvaluatedPoints:
    """Read an EvaluateResponse."""
    single = dict(fields(data))
    return EvaluatedPoints(
        _evaluation(read_bytes(single[1])),
        [_setting(read_bytes(value)) for number, value in fields(data) if number == 2],
        _evaluation(read_bytes(single[3])) if 3 in single else None,
        read_unsigned(single.get(4, 0)),
    )


def _evaluation(data: bytes) -> Evaluation:
    single = dict(fields(data))
    queries = [_relevance(read_bytes(value)) for number, value in fields(data) if number == 7]
    return Evaluation(_setting(data), _relevance(read_bytes(single[5])), _relevance(read_bytes(single[6])), queries)


def _setting(data: bytes) -> MeasuredSetting:
    single = dict(fields(data))
    paths = [dict(fields(read_bytes(value))) for number, value in fields(data) if number == 3]
    return MeasuredSetting(
        _relevance(read_bytes(single[4])),
        balance=read_double(single[1]) if 1 in single else None,
        ef=read_unsigned(single[2]) if 2 in single else None,
        paths={read_text(path[1]): read_double(path[2]) for path in paths} or None,
    )


def _relevance(data: bytes) -> Relevance:
    single = dict(fields(data))
    return Relevance(*(read_double(single[number]) if number in single else 0.0 for number in (1, 2, 3)))


def _words(words: Words) -> bytes:
    paths = (message(2, text(1, path) + double(2, weight)) for path, weight in words.paths.items())
    return b"".join(
        (
            text(1, words.language),
            *paths,
            double(3, words.k1) if words.k1 is not None else b"",
            double(4, words.b) if words.b is not None else b"",
        )
    )


def _words_of(data: bytes) -> Words:
    single = dict(fields(data))
    paths = [dict(fields(read_bytes(value))) for number, value in fields(data) if number == 2]
    return Words(
        paths={read_text(path[1]): read_double(path[2]) for path in paths},
        language=read_text(single[1]),
        k1=read_double(single[3]) if 3 in single else None,
        b=read_double(single[4]) if 4 in single else None,
    )


def read_collection(data: bytes) -> CollectionInfo:
    """Return the contents of a Collection."""
    single = dict(fields(data))
    graph = dict(fields(read_bytes(single.get(4, b""))))
    return CollectionInfo(
        name=read_text(single[1]),
        dimension=read_unsigned(single[2]) if 2 in single else None,
        points=read_unsigned(single.get(3, 0)),
        hnsw=Hnsw(read_unsigned(graph.get(1, 0)), read_unsigned(graph.get(2, 0))),
        aliases=[read_text(value) for number, value in fields(data) if number == 5],
        embedding_model=read_text(single[6]) if 6 in single else None,
        words=_words_of(read_bytes(single[7])) if 7 in single else None,
        quotas=_quotas_of(read_bytes(single[8])) if 8 in single else None,
    )


def name_map(number: int, names: Mapping[str, str]) -> bytes:
    """Return a map of texts."""
    return b"".join(message(number, text(1, key) + text(2, value)) for key, value in names.items())


def read_name_map(number: int, data: bytes) -> dict[str, str]:
    """Return a map of texts."""
    entries = (dict(fields(read_bytes(value))) for found, value in fields(data) if found == number)
    return {read_text(entry[1]): read_text(entry[2]) for entry in entries}
