from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from uuid import UUID

import numpy as np
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


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (datetime(2026, 11, 27, 10, 30), datetime(2026, 11, 27, 10, 30, tzinfo=UTC)),
        (date(2026, 11, 27), "2026-11-27"),
        (Decimal("9.99"), 9.99),
        (Decimal("0.12345678901234567890"), "0.12345678901234567890"),
        (UUID(int=7), str(UUID(int=7))),
        (2**53 + 1, "9007199254740993"),
        (timedelta(minutes=1), 60),
        (PurePosixPath("a/b"), "a/b"),
        (Colour.RED, "red"),
        (("a", None, "b"), ["a", "b"]),
        ({"c.d": 1, 2: "x"}, {"c": {"d": 1}, "2": "x"}),
        (np.float32(1.5), 1.5),
    ],
)
def test_metadata_are_converted_where_attributes_have_no_such_value(
    store: VicinalVectorStore, value: object, stored: object
) -> None:
    store.add_documents([Document("1", metadata={"a.b": value, "none": None, "nan": float("nan")}, id="it")])
    assert store.get_by_ids(["it"])[0].metadata == {"a": {"b": stored}}


def test_what_cannot_be_kept_is_named_and_nothing_is_stored(store: VicinalVectorStore) -> None:
    documents = [
        Document("1", id="fine", metadata={"a": 1}),
        Document("2", id="x", metadata={"raw": b"123"}),
        Document("3", id="y", metadata={"a": 1, "a.b": 2}),
        Document("4", id="z", metadata={"deep": [{"$x": 2}]}),
    ]
    with pytest.raises(InvalidArgumentError) as raised:
        store.add_documents(documents)
    for expected in (
        "document 1 ('x'): metadata.raw is a bytes",
        "document 2 ('y'): metadata.a.b cannot be kept",
        "document 3 ('z'): metadata.deep[0].$x cannot be kept",
    ):
        assert expected in str(raised.value)
    assert store.get_by_ids(["fine"]) == []
    assert store.add_texts([]) == []


def test_unknown_parameters_are_refused(store: VicinalVectorStore) -> None:
    with pytest.raises(TypeError, match="filter"):
        store.delete(filter={"angle": 0})
    with pytest.raises(TypeError, match="metadata"):
        store.add_texts(["1"], metadata=[{"angle": 0}])
    with pytest.raises(TypeError, match="filters"):
        store.similarity_search("1", filters={"angle": 0})
    assert store.client.count() == 10


def test_of_texts_with_one_id_the_last_one_stays(store: VicinalVectorStore) -> None:
    store.add_texts(["1", "2", "3"], ids=["one", "two", "one"], batch_size=2)
    assert contents(store.get_by_ids(["one"])) == ["3"]


def test_a_time_weighted_retriever_works(store: VicinalVectorStore) -> None:
    """LangChain's retriever stores its documents in this way, with times that have no zone."""
    now = datetime.now()
    remembered = {"last_accessed_at": now, "created_at": now, "buffer_idx": 0}
    store.add_documents([Document("45", metadata=remembered)], current_time=now)
    found = store.similarity_search_with_relevance_scores("45", k=1)
    assert found[0][0].metadata["buffer_idx"] == 0


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
