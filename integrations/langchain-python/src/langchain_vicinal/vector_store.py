"""The vector store: LangChain's interface over Vicinal's clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from vicinal import (
    AsyncVicinal,
    F,
    FilterLike,
    Hit,
    Include,
    Metric,
    Vicinal,
    Words,
    uuid_of,
)
from vicinal.bulk import BATCH_POINTS

from .documents import columns_of, document_of, ids_of, in_order

Retrieval: TypeAlias = Literal["vector", "words", "hybrid"]
"""How documents are found: by the vector of a text, by its words, or by both."""

_WITH_VECTORS = Include(distance=True, payload=True, vector=True)


class VicinalVectorStore(VectorStore):
    """
    A vector store with its documents in a collection of Vicinal, found by the vectors of their texts.

    Metadata are attributes, which can filter searches: `filter` is an expression like `F("price") < 10`, or a dict like
    `{"price": {"$lt": 10}}`. Scores are distances; where words, boosts or a reranker count, they are from 0
    to 1, and larger is better.

    :param embedding: embeds texts
    :param client: a client for the collection with the documents, or for its alias, unless `collection` is given
    :param collection: the name of the collection; it is created if it does not exist
    :param async_client: without it, async methods use `client` in a thread
    :param metric: measures distances
    :param words: what the collection is searched by, as words; needs `collection`
    :param retrieval: how texts find documents; `words` and `hybrid` need a collection with words
    :param balance: what the vector counts in `hybrid`, from 0 to 1; by default 0.5
    """

    def __init__(
        self,
        embedding: Embeddings,
        client: Vicinal,
        collection: str | None = None,
        *,
        async_client: AsyncVicinal | None = None,
        metric: Metric = "Cosine",
        words: Words | None = None,
        retrieval: Retrieval = "vector",
        balance: float | None = None,
    ) -> None:
        if retrieval not in ("vector", "words", "hybrid"):
            raise ValueError(f"retrieval is {retrieval!r}: it is vector, words or hybrid")
        if balance is not None and retrieval != "hybrid":
            raise ValueError("balance is given: it needs the retrieval hybrid")
        self._retrieval: Retrieval = retrieval
        self._balance = balance
        self._embedding = embedding
        self._metric: Metric = metric
        self._client = client
        self._async_client = async_client
        if collection is not None:
            client.collections.put(collection, words=words)
            self._client = client.collection(collection)
            self._async_client = async_client and async_client.collection(collection)

    @property
    def embeddings(self) -> Embeddings:
        """The embedding of texts."""
        return self._embedding

    @property
    def client(self) -> Vicinal:
        """The client, for features that LangChain's interface does not have."""
        return self._client

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int = BATCH_POINTS,
        current_time: object = None,
        **kwargs: Any,
    ) -> list[str]:
        """
        Store texts and return their ids. A text whose id exists replaces the stored one; of texts with the same id, the
        last one stays. LangChain's time-weighted retriever passes `current_time`, which is not used.
        """
        _refuse(kwargs)
        contents = list(texts)
        document_ids = ids_of(ids, len(contents))
        vectors = self._embedding.embed_documents(contents)
        if contents:
            columns = columns_of(contents, vectors, metadatas, document_ids)
            self._client.insert_all(columns, batch_size=batch_size)
        return document_ids

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int = BATCH_POINTS,
        current_time: object = None,
        **kwargs: Any,
    ) -> list[str]:
        """
        Store texts and return their ids. A text whose id exists replaces the stored one; of texts with the same id, the
        last one stays. LangChain's time-weighted retriever passes `current_time`, which is not used.
        """
        _refuse(kwargs)
        if self._async_client is None:
            return await run_in_executor(None, self.add_texts, texts, metadatas, ids=ids, batch_size=batch_size)
        contents = list(texts)
        document_ids = ids_of(ids, len(contents))
        vectors = await self._embedding.aembed_documents(contents)
        if contents:
            columns = columns_of(contents, vectors, metadatas, document_ids)
            await self._async_client.insert_all(columns, batch_size=batch_size)
        return document_ids

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents by id; without ids, all documents. Missing documents are not an error."""
        _refuse(kwargs)
        more = True
        while more:
            more = self._client.delete_where(_of_ids(ids), everything=ids is None).more
        return True

    async def adelete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents by id; without ids, all documents. Missing documents are not an error."""
        _refuse(kwargs)
        if self._async_client is None:
            return bool(await super().adelete(ids))
        more = True
        while more:
            more = (await self._async_client.delete_where(_of_ids(ids), everything=ids is None)).more
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents in the order of their ids, without missing ones."""
        return in_order(ids, self._client.iterate(_of_ids(ids)))

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents in the order of their ids, without missing ones."""
        if self._async_client is None:
            return await super().aget_by_ids(ids)
        return in_order(ids, [point async for point in self._async_client.iterate(_of_ids(ids))])

    def similarity_search(
        self, query: str, k: int = 4, *, filter: FilterLike | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a text, among those that match the filter."""
        return _documents(self.similarity_search_with_score(query, k, filter=filter, **kwargs))

    async def asimilarity_search(
        self, query: str, k: int = 4, *, filter: FilterLike | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a text, among those that match the filter."""
        return _documents(await self.asimilarity_search_with_score(query, k, filter=filter, **kwargs))

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: FilterLike | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """
        Return the documents nearest to a text with their distances: smaller is nearer. Where words, `boost` or `rerank`
        count, return scores: larger is better.
        """
        if self._retrieval != "vector":
            vector = self._embedding.embed_query(query) if self._retrieval == "hybrid" else None
            ranking = self._ranking(query, vector, kwargs)
            return _scored(self._client.search(**ranking, limit=k, filter=filter, **kwargs).hits, is_ranked=True)
        return self.similarity_search_with_score_by_vector(
            self._embedding.embed_query(query), k, filter=filter, **kwargs
        )

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, *, filter: FilterLike | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """
        Return the documents nearest to a text with their distances: smaller is nearer. Where words, `boost` or `rerank`
        count, return scores: larger is better.
        """
        if self._retrieval != "vector":
            if self._async_client is None:
                return await run_in_executor(None, self.similarity_search_with_score, query, k, filter=filter, **kwargs)
            near = await self._embedding.aembed_query(query) if self._retrieval == "hybrid" else None
            ranking = self._ranking(query, near, kwargs)
            found = await self._async_client.search(**ranking, limit=k, filter=filter, **kwargs)
            return _scored(found.hits, is_ranked=True)
        vector = await self._embedding.aembed_query(query)
        return await self.asimilarity_search_with_score_by_vector(vector, k, filter=filter, **kwargs)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: FilterLike | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a vector."""
        return _documents(self.similarity_search_with_score_by_vector(embedding, k, filter=filter, **kwargs))

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: FilterLike | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the documents nearest to a vector."""
        return _documents(await self.asimilarity_search_with_score_by_vector(embedding, k, filter=filter, **kwargs))

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: FilterLike | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """
        Return the documents nearest to a vector with their distances. Other parameters are those of Vicinal; with
        `boost` or `rerank`, return scores: larger is better.
        """
        result = self._client.search(embedding, self._metric, limit=k, filter=filter, **kwargs)
        return _scored(result.hits, is_ranked=_is_ranked(kwargs))

    async def asimilarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: FilterLike | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """
        Return the documents nearest to a vector with their distances. Other parameters are those of Vicinal; with
        `boost` or `rerank`, return scores: larger is better.
        """
        if self._async_client is None:
            return await run_in_executor(
                None, self.similarity_search_with_score_by_vector, embedding, k, filter=filter, **kwargs
            )
        result = await self._async_client.search(embedding, self._metric, limit=k, filter=filter, **kwargs)
        return _scored(result.hits, is_ranked=_is_ranked(kwargs))

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: FilterLike | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents that are near a text and differ from each other, chosen from the `fetch_k` nearest."""
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter=filter, **kwargs)

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: FilterLike | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents that are near a text and differ from each other, chosen from the `fetch_k` nearest."""
        vector = await self._embedding.aembed_query(query)
        return await self.amax_marginal_relevance_search_by_vector(
            vector, k, fetch_k, lambda_mult, filter=filter, **kwargs
        )

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: FilterLike | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents that are near a vector and differ from each other, chosen from the `fetch_k` nearest."""
        result = self._client.search(
            embedding, self._metric, limit=fetch_k, filter=filter, include=_WITH_VECTORS, **kwargs
        )
        return _diverse(embedding, result.hits, k, lambda_mult)

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: FilterLike | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return documents that are near a vector and differ from each other, chosen from the `fetch_k` nearest."""
        if self._async_client is None:
            return await super().amax_marginal_relevance_search_by_vector(
                embedding, k, fetch_k, lambda_mult, filter=filter, **kwargs
            )
        result = await self._async_client.search(
            embedding, self._metric, limit=fetch_k, filter=filter, include=_WITH_VECTORS, **kwargs
        )
        return _diverse(embedding, result.hits, k, lambda_mult)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> VicinalVectorStore:
        """Return a store with these texts; pass `client` and the other parameters of the class as keywords."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> VicinalVectorStore:
        """Return a store with these texts; pass `client` and the other parameters of the class as keywords."""
        store = await run_in_executor(None, cls, embedding, **kwargs)
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store

    def _ranking(self, query: str, vector: list[float] | None, more: dict[str, Any]) -> dict[str, Any]:
        if vector is None:
            is_near = more.get("like") is not None or more.get("unlike") is not None
            return {"words": query, "metric": self._metric} if is_near else {"words": query}
        return {"near": vector, "metric": self._metric, "words": query, "balance": self._balance}

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        if _is_ranked(kwargs):
            return self.similarity_search_with_score(query, k, **kwargs)
        return super()._similarity_search_with_relevance_scores(query, k, **kwargs)

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        if _is_ranked(kwargs):
            return await self.asimilarity_search_with_score(query, k, **kwargs)
        return await super()._asimilarity_search_with_relevance_scores(query, k, **kwargs)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        """Return a function that maps a distance to a score: 1 for equal vectors, towards 0 for distant ones."""
        if self._retrieval != "vector":
            return lambda score: score
        return (
            (lambda distance: 1 - distance / 2) if self._metric == "Cosine" else (lambda distance: 1 / (1 + distance))
        )


def _refuse(unknown: dict[str, Any]) -> None:
    """Refuse unknown parameters: a misspelt one could store or delete more than was meant."""
    if unknown:
        raise TypeError(f"unknown parameters: {', '.join(unknown)}")


def _of_ids(ids: Sequence[str] | None) -> FilterLike:
    return {} if ids is None else F("$id").any_of([uuid_of(id) for id in ids])


def _is_ranked(more: dict[str, Any]) -> bool:
    """Return whether parameters of a search make it order documents by scores."""
    return bool(more.get("boost")) or more.get("rerank") is not None or more.get("words") is not None


def _scored(hits: Sequence[Hit], *, is_ranked: bool) -> list[tuple[Document, float]]:
    return [(document_of(hit), (hit.score if is_ranked else hit.distance) or 0.0) for hit in hits]


def _documents(scored: Sequence[tuple[Document, float]]) -> list[Document]:
    return [document for document, _ in scored]


def _diverse(embedding: list[float], hits: Sequence[Hit], k: int, lambda_mult: float) -> list[Document]:
    rows = [hit.vector.tolist() for hit in hits if hit.vector is not None]
    chosen = maximal_marginal_relevance(np.array(embedding, np.float32), rows, lambda_mult, k)
    return [document_of(hits[index]) for index in chosen]
