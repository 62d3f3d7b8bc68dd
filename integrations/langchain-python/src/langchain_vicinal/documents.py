"""Documents as points, and back."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from vicinal import Columns, StoredPoint, uuid_of
from vicinal.metadata import attributes_of_all

ID_ATTRIBUTE = "langchain_id"
"""The attribute with the document's id if that is not a UUID."""


def ids_of(given: Sequence[str | None] | None, count: int) -> list[str]:
    """Return an id for each document: the given one, or a new one."""
    ids = [None] * count if given is None else given
    return [str(uuid.uuid4()) if id is None else id for id in ids]


def columns_of(
    texts: Sequence[str],
    vectors: Sequence[Sequence[float]],
    metadatas: Iterable[Mapping[str, Any]] | None,
    ids: Sequence[str],
) -> Columns:
    """
    Return documents as points: the text is the content, and metadata are attributes, converted where needed. Existing
    ids are replaced.
    """
    point_ids = [uuid_of(id) for id in ids]
    own = [{} if point_id == id.lower() else {ID_ATTRIBUTE: id} for point_id, id in zip(point_ids, ids, strict=True)]
    given: Iterable[Mapping[str, Any]] = [{}] * len(texts) if metadatas is None else metadatas
    converted = attributes_of_all(zip(ids, given, strict=True), "document")
    attributes = [{**metadata, **id} for metadata, id in zip(converted, own, strict=True)]
    return Columns(list(vectors), texts, attributes=attributes, ids=point_ids, on_conflict="replace")


def document_of(point: StoredPoint) -> Document:
    """Return the document of a point."""
    metadata = dict(point.attributes)
    id = metadata.pop(ID_ATTRIBUTE, point.id)
    return Document(page_content=point.content or "", metadata=metadata, id=str(id))


def in_order(ids: Iterable[str], points: Iterable[StoredPoint]) -> list[Document]:
    """Return documents in the order of their ids, without missing ones."""
    found = {point.id: point for point in points}
    return [document_of(found[uuid_of(id)]) for id in ids if uuid_of(id) in found]
