from __future__ import annotations

import asyncio

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
from vicinal import Boost, Vicinal, Words

from llama_index.vector_stores.vicinal import VicinalVectorStore


def test_words_are_searched_alone_and_with_a_vector(client: Vicinal) -> None:
    store = VicinalVectorStore(client, "by-words", words=Words(paths={"content": 1}))
    try:
        store.add(
            [
                TextNode(id_="bread", text="anadama bread", embedding=[1, 0]),
                TextNode(id_="flour", text="rye flour for bread", embedding=[0, 1]),
            ]
        )

        def found(mode: VectorStoreQueryMode, alpha: float | None = None) -> tuple[list[str], list[float]]:
            embedding = None if mode == VectorStoreQueryMode.TEXT_SEARCH else [0.0, 1.0]
            query = VectorStoreQuery(
                query_str="anadama bread", query_embedding=embedding, similarity_top_k=2, mode=mode, alpha=alpha
            )
            result = store.query(query)
            awaited = asyncio.run(store.aquery(query))
            assert (result.ids, result.similarities) == (awaited.ids, awaited.similarities)
            return list(result.ids or []), list(result.similarities or [])

        ids, scores = found(VectorStoreQueryMode.TEXT_SEARCH)
        assert ids == ["bread", "flour"]
        assert scores[0] == 1
        assert 0 < scores[1] < 1
        assert found(VectorStoreQueryMode.HYBRID, 0.1)[0] == ["bread", "flour"]
        assert found(VectorStoreQueryMode.HYBRID, 0.9)[0] == ["flour", "bread"]
        assert found(VectorStoreQueryMode.DEFAULT)[0] == ["flour", "bread"]
        nearest = VectorStoreQuery(query_embedding=[0, 1], similarity_top_k=2)
        boosted = store.query(nearest, boost=[Boost(9, filter={"content": {"$match": "anadama"}})])
        assert boosted.ids == ["bread", "flour"]
        assert boosted.similarities == sorted(boosted.similarities or [], reverse=True)
        assert store.query(nearest, ef=200, rerank=None).similarities == [1, 0]
        by_words = VectorStoreQuery(query_str="anadama", similarity_top_k=1, mode=VectorStoreQueryMode.TEXT_SEARCH)
        like = store.client.search(words="anadama", limit=1).ids
        assert store.query(by_words, like=like).ids == ["flour"]
        with pytest.raises(TypeError, match=r"the store sets by the query and its metric: words, limit$"):
            store.query(nearest, limit=1, words="x")
        with pytest.raises(ValueError, match="no query_str, which the mode hybrid needs"):
            store.query(VectorStoreQuery(query_embedding=[0, 1], mode=VectorStoreQueryMode.HYBRID))
        with pytest.raises(ValueError, match="no search in the mode semantic_hybrid: use default, mmr, hybrid"):
            store.query(VectorStoreQuery(query_embedding=[0, 1], mode=VectorStoreQueryMode.SEMANTIC_HYBRID))
    finally:
        client.collections.delete("by-words")
