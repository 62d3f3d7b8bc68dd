"""
Nodes as points, and back.

    content      the text
    attributes   the metadata, and LlamaIndex's fields: `ref_doc_id` and others, which filters use
      _node_content  JSON of the rest of the node; its metadata are only what attributes do not return unchanged

Attributes take at most 64 KiB. LlamaIndex would write all metadata twice, and once more for each related node.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode, VectorStoreQueryResult
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from vicinal import Attributes, Hit, Include, Metric, NewPoint, StoredPoint, uuid_of
from vicinal.metadata import attributes_of_all
from vicinal.values import INTEGER_MAX

_MMR_POOL = 4
"""Prefetch factor of MMR: how many candidates are fetched for each wanted node."""


_IN_ATTRIBUTES = "in_attributes"
"""In `_node_content`: the names of metadata whose values are in the attributes."""
_OF_NODE = "metadata_of_node"
"""In a related node: the names of metadata whose values are those of the node itself."""


def points_of(nodes: Sequence[BaseNode]) -> Iterator[NewPoint]:
    """Return nodes as points; refuse metadata that attributes cannot have before the first point."""
    written = [node_to_metadata_dict(node, remove_text=True) for node in nodes]
    contents = [json.loads(fields.pop("_node_content")) for fields in written]
    metadatas = attributes_of_all(
        ((node.node_id, content["metadata"]) for node, content in zip(nodes, contents, strict=True)), "node"
    )
    return map(_point_of, nodes, written, contents, metadatas)


def _point_of(node: BaseNode, fields: Mapping[str, Any], content: dict[str, Any], metadata: Attributes) -> NewPoint:
    kept = {name: value for name, value in metadata.items() if value != []}
    own = content["metadata"]
    content[_IN_ATTRIBUTES] = [
        name for name, value in own.items() if name in kept and name not in _RESERVED and _is_returned(value)
    ]
    for related in _related_to(content):
        given = related["metadata"]
        related[_OF_NODE] = [name for name, value in given.items() if name in own and own[name] == value]
        related["metadata"] = {name: value for name, value in given.items() if name not in related[_OF_NODE]}
    content["metadata"] = {name: None if name in content[_IN_ATTRIBUTES] else value for name, value in own.items()}
    added = {name: fields[name] for name in _FIELDS}
    return NewPoint(
        vector=np.asarray(node.get_embedding(), np.float32),
        content=node.get_content(metadata_mode=MetadataMode.NONE),
        attributes={**kept, **added, "_node_content": json.dumps(content, ensure_ascii=False)},
        id=uuid_of(node.node_id),
        on_conflict="replace",
    )


_FIELDS = ("_node_type", "document_id", "doc_id", "ref_doc_id")
"""What LlamaIndex writes next to the metadata, and in place of metadata with these names."""
_RESERVED = (*_FIELDS, "_node_content")


def _related_to(content: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for related in content.get("relationships", {}).values():
        yield from related if isinstance(related, list) else [related]


def _is_returned(value: Any) -> bool:
    """Whether an attribute comes back as exactly this value. 3.0 comes back as 3, and empty values are left out."""
    match value:
        case bool():
            return True
        case int():
            return abs(value) <= INTEGER_MAX
        case float():
            return not value.is_integer()
        case str():
            return True
        case list():
            return value != [] and all(_is_returned(item) for item in value)
        case dict():
            return value != {} and all("." not in name and _is_returned(item) for name, item in value.items())
    return False


def node_of(point: StoredPoint) -> BaseNode:
    """Return the node of a point, with its vector if that was fetched."""
    attributes = dict(point.attributes)
    content = json.loads(str(attributes.get("_node_content", "{}")))
    own = content.get("metadata", {})
    for name in content.pop(_IN_ATTRIBUTES, ()):
        # A name is missing if somebody has removed the attribute.
        own[name] = attributes.get(name)
    for related in _related_to(content):
        related["metadata"].update({name: own.get(name) for name in related.pop(_OF_NODE, ())})
    if content:
        attributes["_node_content"] = json.dumps(content, ensure_ascii=False)
    node = metadata_dict_to_node(attributes, text=point.content or "")
    node.embedding = None if point.vector is None else point.vector.tolist()
    return node


def search_of(query: VectorStoreQuery) -> dict[str, Any]:
    """Return the number of hits for a query, and which parts of them to fetch."""
    match query.mode:
        case VectorStoreQueryMode.DEFAULT:
            return {"limit": query.similarity_top_k, "include": Include(distance=True, payload=True)}
        case VectorStoreQueryMode.MMR:
            limit = query.similarity_top_k * _MMR_POOL
            return {"limit": limit, "include": Include(distance=True, payload=True, vector=True)}
        case VectorStoreQueryMode.TEXT_SEARCH | VectorStoreQueryMode.SPARSE:
            limit = query.sparse_top_k or query.similarity_top_k
            return {"limit": limit, "words": words_of(query), "include": Include(payload=True, scores=True)}
        case VectorStoreQueryMode.HYBRID:
            return {
                "limit": query.hybrid_top_k or query.similarity_top_k,
                "words": words_of(query),
                "balance": query.alpha,
                "include": Include(payload=True, scores=True),
            }
    raise ValueError(
        f"Vicinal has no search in the mode {query.mode.value}: use default, mmr, hybrid, text_search or sparse"
    )


def is_by_words_alone(query: VectorStoreQuery) -> bool:
    """Return whether a query needs no vector."""
    return query.mode in (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE)


def words_of(query: VectorStoreQuery) -> str:
    """Return the words of a query."""
    if query.query_str is None:
        raise ValueError(f"the query has no query_str, which the mode {query.mode.value} needs")
    return query.query_str


def result_of(query: VectorStoreQuery, hits: Sequence[Hit], metric: Metric) -> VectorStoreQueryResult:
    """Return the found nodes, nearest first, or for MMR the most relevant first."""
    nodes = [node_of(hit) for hit in hits]
    if query.mode == VectorStoreQueryMode.MMR and nodes:
        similarities, chosen = get_top_k_mmr_embeddings(
            list(query.query_embedding or ()),
            [node.get_embedding() for node in nodes],
            similarity_top_k=query.similarity_top_k,
            mmr_threshold=query.mmr_threshold,
        )
        nodes = [nodes[index] for index in chosen]
    else:
        similarities = [_similarity(hit, metric) for hit in hits]
    return VectorStoreQueryResult(nodes, similarities, [node.node_id for node in nodes])


def _similarity(hit: Hit, metric: Metric) -> float:
    """
    Return a similarity: the score of a search by words; otherwise the cosine itself, and for other metrics 1 for equal
    vectors, towards 0 for distant ones.
    """
    if hit.score is not None:
        return hit.score
    distance = hit.distance or 0.0
    return 1 - distance if metric == "Cosine" else 1 / (1 + distance)
