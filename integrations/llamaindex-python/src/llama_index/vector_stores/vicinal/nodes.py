"""Nodes as points, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode, VectorStoreQueryResult
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from vicinal import Hit, Include, Metric, NewPoint, StoredPoint, uuid_of

_MMR_POOL = 4
"""Prefetch factor of MMR: how many candidates are fetched for each wanted node."""


def point_of(node: BaseNode) -> NewPoint:
    """Return a node as a point: its text is the content, and its metadata are attributes."""
    metadata = node_to_metadata_dict(node, remove_text=True)
    return NewPoint(
        vector=np.asarray(node.get_embedding(), np.float32),
        content=node.get_content(metadata_mode=MetadataMode.NONE),
        attributes={name: value for name, value in metadata.items() if value is not None and value != []},
        id=uuid_of(node.node_id),
        on_conflict="replace",
    )


def node_of(point: StoredPoint) -> BaseNode:
    """Return the node of a point, with its vector if that was fetched."""
    node = metadata_dict_to_node(dict(point.attributes), text=point.content or "")
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
    raise ValueError(f"Vicinal has no search in the mode {query.mode.value}: use default or mmr")


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
        similarities = [_similarity(hit.distance or 0.0, metric) for hit in hits]
    return VectorStoreQueryResult(nodes, similarities, [node.node_id for node in nodes])


def _similarity(distance: float, metric: Metric) -> float:
    """Return a similarity: the cosine itself; for other metrics 1 for equal vectors, towards 0 for distant ones."""
    return 1 - distance if metric == "Cosine" else 1 / (1 + distance)
