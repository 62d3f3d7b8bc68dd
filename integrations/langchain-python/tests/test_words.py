from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from vicinal import Boost, Vicinal, Words

from langchain_vicinal import VicinalVectorStore


class Flour(Embeddings):
    """Texts with flour are near each other, and near every query."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[0.0, 1.0] if "flour" in text else [1.0, 0.0] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [0.0, 1.0]


def test_words_are_searched_alone_and_with_a_vector(client: Vicinal) -> None:
    texts = ["anadama bread", "rye flour for bread"]

    def store(**options: Any) -> VicinalVectorStore:
        return VicinalVectorStore(Flour(), client, "by-words", words=Words(paths={"content": 1}), **options)

    try:
        store().add_texts(texts)
        (first, best), (second, other) = store(retrieval="words").similarity_search_with_score("anadama bread", 2)
        assert [first.page_content, second.page_content] == texts
        assert best == 1
        assert 0 < other < 1

        def found(**options: Any) -> list[str]:
            chosen = store(**options)
            contents = [each.page_content for each in chosen.similarity_search("anadama bread", 2)]
            awaited = asyncio.run(chosen.asimilarity_search("anadama bread", 2))
            assert [each.page_content for each in awaited] == contents
            return contents

        assert found(retrieval="hybrid", balance=0.1) == texts
        assert found(retrieval="hybrid", balance=0.9) == texts[::-1]
        assert found() == texts[::-1]
        boost = [Boost(9, filter={"content": {"$match": "anadama"}})]
        plain = store()
        (raised, high), (_, low) = plain.similarity_search_with_score("bread", 2, boost=boost)
        assert raised.page_content == texts[0]
        assert 1 >= high > low
        scored = plain.similarity_search_with_relevance_scores("bread", 2, boost=boost)
        assert [score for _, score in scored] == [high, low]
        scored = asyncio.run(plain.asimilarity_search_with_relevance_scores("bread", 2, boost=boost))
        assert [score for _, score in scored] == [high, low]
        assert [score for _, score in plain.similarity_search_with_score("bread", 2, ef=200, boost=None)] == [0, 1]
        like = plain.client.search(words="anadama", limit=1).ids
        assert store(retrieval="words").similarity_search("anadama", 1, like=like)[0].page_content == texts[1]
        relevant = store(retrieval="hybrid").similarity_search_with_relevance_scores("anadama bread", 1)
        assert 0 < relevant[0][1] <= 1
        assert store(retrieval="words").similarity_search("bread", 1, filter={"$id": {"$in": []}}) == []
        with pytest.raises(ValueError, match="retrieval is 'both'"):
            store(retrieval="both")
        with pytest.raises(ValueError, match="balance is given"):
            store(balance=0.5)
    finally:
        client.collections.delete("by-words")
