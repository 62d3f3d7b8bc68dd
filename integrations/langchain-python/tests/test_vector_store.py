from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from real_service import Service
from vicinal import AsyncVicinal, F, InvalidArgumentError, Vicinal

from langchain_vicinal import VicinalVectorStore

_numbers = itertools.count()


class Angles(Embeddings):
    """The vector of "30" is at 30 degrees."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        import math

        angle = math.radians(float(text))
        return [math.cos(angle), math.sin(angle)]


@pytest.fixture
def store(client: Vicinal) -> Iterator[VicinalVectorStore]:
    name = f"test-{next(_numbers)}"
    metadatas = [{"angle": angle, "kind": ["round", "even"][angle % 20 == 0]} for angle in range(0, 100, 10)]
    texts = [str(metadata["angle"]) for metadata in metadatas]
    yield VicinalVectorStore.from_texts(texts, Angles(), metadatas, ids=texts, client=client, collection=name)
    client.collections.delete(name)


def contents(documents: list[Document]) -> list[str]:
    return [document.page_content for document in documents]


def test_only_documents_that_match_are_found(store: VicinalVectorStore) -> None:
    assert contents(store.similarity_search("1", k=3)) == ["0", "10", "20"]
    assert contents(store.similarity_search("1", k=3, filter=F("angle") > 40)) == ["50", "60", "70"]
    assert contents(store.similarity_search("1", k=2, filter={"kind": "even"})) == ["0", "20"]
    assert contents(store.similarity_search_by_vector([0, 1], k=1)) == ["90"]


def test_scores_are_distances_and_relevance_is_from_0_to_1(store: VicinalVectorStore) -> None:
    document, distance = store.similarity_search_with_score("0", k=1)[0]
    assert (document.id, document.metadata, distance) == ("0", {"angle": 0, "kind": "even"}, 0)
    relevant = store.similarity_search_with_relevance_scores("180", k=10)
    assert [document.page_content for document, _ in relevant] == [str(angle) for angle in range(90, -1, -10)]
    assert relevant[-1][1] == pytest.approx(0)
    near = store.similarity_search_with_relevance_scores("0", k=10, score_threshold=0.99)
    assert [document.page_content for document, _ in near] == ["0", "10"]


def test_marginal_relevance_spreads_the_results(store: VicinalVectorStore) -> None:
    assert contents(store.max_marginal_relevance_search("0", k=2, fetch_k=10, lambda_mult=0.1)) == ["0", "90"]
    assert contents(store.max_marginal_relevance_search("0", k=2, fetch_k=10, lambda_mult=1)) == ["0", "10"]
    few = store.max_marginal_relevance_search("0", k=2, fetch_k=10, lambda_mult=0.1, filter=F("angle") < 50)
    assert contents(few) == ["0", "40"]
    assert store.max_marginal_relevance_search("0", filter=F("angle") > 500) == []


def test_a_retriever_passes_the_filter_on(store: VicinalVectorStore) -> None:
    retriever = store.as_retriever(search_type="mmr", search_kwargs={"k": 2, "filter": F("angle") >= 50})
    assert contents(retriever.invoke("0"))[0] == "50"


def test_deleting_without_ids_deletes_everything(store: VicinalVectorStore) -> None:
    assert store.client.count() == 10
    store.delete([])
    assert store.client.count() == 10
    store.delete()
    assert store.client.count() == 0


def test_what_cannot_be_a_name_is_refused(store: VicinalVectorStore) -> None:
    with pytest.raises(InvalidArgumentError, match=r"a\.b"):
        store.add_texts(["1"], [{"a.b": 1}])
    assert store.add_texts([]) == []


@pytest.mark.parametrize("has_client", [True, False])
def test_async_methods_do_the_same(store: VicinalVectorStore, service: Service, has_client: bool) -> None:
    async def use() -> list[list[str]]:
        async with AsyncVicinal(service.url) as asynchronous:
            documents = [Document("0", metadata={"n": 0}), Document("90", metadata={"n": 90})]
            more = await VicinalVectorStore.afrom_documents(
                documents,
                Angles(),
                client=store.client,
                collection="async",
                async_client=asynchronous if has_client else None,
            )
            found = await more.asimilarity_search("1", k=1, filter=F("n") > 1)
            by_vector = await more.asimilarity_search_by_vector([1, 0], k=1)
            diverse = await more.amax_marginal_relevance_search("0", k=2)
            kept = await more.aget_by_ids([found[0].id or ""])
            await more.adelete()
            left = await more.asimilarity_search("1")
            return [contents(each) for each in (found, by_vector, diverse, kept, left)]

    assert asyncio.run(use()) == [["90"], ["0"], ["0", "90"], ["90"], []]
