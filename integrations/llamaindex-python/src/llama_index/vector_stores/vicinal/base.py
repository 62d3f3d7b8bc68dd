"""The vector store: LlamaIndex's interface over Vicinal's clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)

from llama_index.vector_stores.vicinal.filters import filter_of, filter_of_query
from llama_index.vector_stores.vicinal.nodes import is_by_words_alone, node_of, points_of, result_of, search_of
from vicinal import AsyncVicinal, F, FilterLike, Metric, Vicinal, Words


class VicinalVectorStore(BasePydanticVectorStore):
    """
    A vector store with its nodes in a collection of Vicinal. Metadata are attributes, which can filter queries.

    :param client: a client for the collection with the nodes, or for its alias, unless `collection` is given
    :param collection: the name of the collection; it is created if it does not exist
    :param async_client: without it, async methods use `client` in a thread
    :param metric: measures distances
    :param words: what the collection is searched by in the modes hybrid, text_search and sparse; needs `collection`
    """

    stores_text: bool = True
    flat_metadata: bool = False
    metric: Metric

    _client: Vicinal = PrivateAttr()
    _async_client: AsyncVicinal | None = PrivateAttr()

    def __init__(
        self,
        client: Vicinal,
        collection: str | None = None,
        *,
        async_client: AsyncVicinal | None = None,
        metric: Metric = "Cosine",
        words: Words | None = None,
    ) -> None:
        # mypy knows pydantic's parameters only through a plugin.
        fields: dict[str, Any] = {"metric": metric}
        super().__init__(**fields)
        self._client = client
        self._async_client = async_client
        if collection is not None:
            client.collections.put(collection, words=words)
            self._client = client.collection(collection)
            self._async_client = async_client and async_client.collection(collection)

    @classmethod
    def class_name(cls) -> str:
        """Return LlamaIndex's name for the class."""
        return "VicinalVectorStore"

    @property
    def client(self) -> Vicinal:
        """The client, for features that LlamaIndex's interface does not have."""
        return self._client

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Store nodes and return their ids. A node whose id exists replaces the stored one."""
        _refuse(kwargs)
        self._client.insert_all(points_of(nodes))
        return [node.node_id for node in nodes]

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Store nodes and return their ids. A node whose id exists replaces the stored one."""
        _refuse(kwargs)
        if self._async_client is None:
            return await asyncio.to_thread(self.add, nodes)
        await self._async_client.insert_all(points_of(nodes))
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document."""
        _refuse(delete_kwargs)
        self._delete(F("ref_doc_id") == ref_doc_id)

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document."""
        _refuse(delete_kwargs)
        await self._adelete(F("ref_doc_id") == ref_doc_id)

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete nodes that have one of the ids and match the filters; without both, delete nothing."""
        _refuse(delete_kwargs)
        chosen = filter_of(filters, node_ids)
        if chosen is not None:
            self._delete(chosen)

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete nodes that have one of the ids and match the filters; without both, delete nothing."""
        _refuse(delete_kwargs)
        chosen = filter_of(filters, node_ids)
        if chosen is not None:
            await self._adelete(chosen)

    def clear(self) -> None:
        """Delete all nodes."""
        self._delete({})

    async def aclear(self) -> None:
        """Delete all nodes."""
        await self._adelete({})

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return nodes that have one of the ids and match the filters, in the order of their insertion."""
        return [node_of(point) for point in self._client.iterate(filter_of(filters, node_ids))]

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes that have one of the ids and match the filters, in the order of their insertion."""
        if self._async_client is None:
            return await asyncio.to_thread(self.get_nodes, node_ids, filters)
        return [node_of(point) async for point in self._async_client.iterate(filter_of(filters, node_ids))]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """
        Return the matching nodes nearest to a vector; in the mode MMR, nodes that also differ from each other; by the
        words of `query_str` in the modes text_search and sparse; by both in the mode hybrid, where `alpha` is what the
        vector counts. Other parameters are those of Vicinal; with `boost` or `rerank`, similarities are scores.
        """
        found = self._client.search(**self._asked_by(query, kwargs), filter=filter_of_query(query))
        return result_of(query, found.hits, self.metric)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """
        Return the matching nodes nearest to a vector; in the mode MMR, nodes that also differ from each other; by the
        words of `query_str` in the modes text_search and sparse; by both in the mode hybrid, where `alpha` is what the
        vector counts. Other parameters are those of Vicinal; with `boost` or `rerank`, similarities are scores.
        """
        if self._async_client is None:
            return await asyncio.to_thread(self.query, query, **kwargs)
        found = await self._async_client.search(**self._asked_by(query, kwargs), filter=filter_of_query(query))
        return result_of(query, found.hits, self.metric)

    def _asked_by(self, query: VectorStoreQuery, more: dict[str, Any]) -> dict[str, Any]:
        own = [name for name in _OWN if name in more]
        if own:
            raise TypeError(f"parameters that the store sets by the query and its metric: {', '.join(own)}")
        asked = {**search_of(query), **more}
        given = {name for name, value in more.items() if value is not None}
        if given & {"boost", "rerank"}:
            asked["include"] = replace(asked["include"], scores=True)
        if not is_by_words_alone(query):
            asked["near"] = _vector_of(query)
        if "near" in asked or given & {"like", "unlike"}:
            asked["metric"] = self.metric
        return asked

    def _delete(self, filter: FilterLike) -> None:
        while self._client.delete_where(filter, everything=filter == {}).more:
            pass

    async def _adelete(self, filter: FilterLike) -> None:
        if self._async_client is None:
            await asyncio.to_thread(self._delete, filter)
            return
        while (await self._async_client.delete_where(filter, everything=filter == {})).more:
            pass


_OWN = ("near", "metric", "words", "balance", "limit", "filter", "include")
"""The parameters of a search that others cannot replace."""


def _refuse(unknown: dict[str, Any]) -> None:
    """Refuse unknown parameters: a misspelt one could store or delete more than was meant."""
    if unknown:
        raise TypeError(f"unknown parameters: {', '.join(unknown)}")


def _vector_of(query: VectorStoreQuery) -> list[float]:
    if query.query_embedding is None:
        raise ValueError("the query has no embedding")
    return query.query_embedding
