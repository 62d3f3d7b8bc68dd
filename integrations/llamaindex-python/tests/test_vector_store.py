from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from real_service import API_KEY, Service
from vicinal import AsyncVicinal, InvalidArgumentError, Vicinal

from llama_index.vector_stores.vicinal import VicinalVectorStore

_numbers = itertools.count()


def direction(degrees: float) -> list[float]:
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def nodes() -> list[TextNode]:
    """Ten nodes of two documents, at 0 to 90 degrees."""
    return [
        TextNode(
            id_=f"node-{angle}",
            text=f"at {angle}",
            metadata=_metadata(angle),
            embedding=direction(angle),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc-{angle // 50}")},
        )
        for angle in range(0, 100, 10)
    ]


def _metadata(angle: int) -> dict[str, Any]:
    return {
        "angle": angle,
        "kind": "even" if angle % 20 == 0 else "odd",
        "tags": [f"t{angle % 3}", "all"],
        "rare": "yes" if angle == 70 else None,
        "none": [],
    }


@pytest.fixture
def store(client: Vicinal) -> Iterator[VicinalVectorStore]:
    name = f"test-{next(_numbers)}"
    one = VicinalVectorStore(client, name)
    assert one.add(nodes()) == [node.node_id for node in nodes()]
    yield one
    client.collections.delete(name)


@pytest.fixture(scope="module")
def simple() -> SimpleVectorStore:
    """LlamaIndex's own store, for comparison."""
    one = SimpleVectorStore()
    one.add(nodes())
    return one


def query(top_k: int = 10, **more: Any) -> VectorStoreQuery:
    return VectorStoreQuery(query_embedding=direction(1), similarity_top_k=top_k, **more)


def one(key: str, operator: FilterOperator, value: Any) -> MetadataFilter:
    return MetadataFilter(key=key, operator=operator, value=value)


LEAVES = [
    one("angle", FilterOperator.EQ, 30),
    one("angle", FilterOperator.NE, 30),
    one("angle", FilterOperator.GT, 30),
    one("angle", FilterOperator.GTE, 30),
    one("angle", FilterOperator.LT, 30),
    one("angle", FilterOperator.LTE, 30),
    one("kind", FilterOperator.IN, ["even", "neither"]),
    one("angle", FilterOperator.NIN, [30, 40]),
    one("tags", FilterOperator.CONTAINS, "t1"),
    one("tags", FilterOperator.ANY, ["t1", "t2"]),
    one("tags", FilterOperator.ALL, ["t1", "all"]),
    one("rare", FilterOperator.NE, "yes"),
]
FILTERS = [
    *(MetadataFilters(filters=[leaf]) for leaf in LEAVES),
    MetadataFilters(filters=[LEAVES[0], LEAVES[6]], condition=FilterCondition.OR),
    MetadataFilters(filters=[LEAVES[2], LEAVES[6]], condition=FilterCondition.AND),
]


@pytest.mark.parametrize("filters", FILTERS, ids=lambda filters: filters.model_dump_json())
def test_filters_mean_what_they_mean_in_llamaindex_s_own_store(
    store: VicinalVectorStore, simple: SimpleVectorStore, filters: MetadataFilters
) -> None:
    expected = simple.query(query(filters=filters))
    found = store.query(query(filters=filters))
    assert expected.ids
    assert found.ids == expected.ids
    assert found.similarities == pytest.approx(expected.similarities)
    assert found.nodes is not None
    assert [node.node_id for node in found.nodes] == found.ids


def test_nested_negated_and_empty(store: VicinalVectorStore) -> None:
    either = MetadataFilters(filters=[LEAVES[0], LEAVES[6]], condition=FilterCondition.OR)
    nested = MetadataFilters(filters=[either, LEAVES[5]])
    assert store.query(query(filters=nested)).ids == ["node-0", "node-20", "node-30"]
    negated = MetadataFilters(filters=[LEAVES[2], LEAVES[0]], condition=FilterCondition.NOT)
    assert store.query(query(filters=negated)).ids == ["node-0", "node-10", "node-20"]
    for key in ("rare", "none"):
        empty = MetadataFilters(filters=[one(key, FilterOperator.IS_EMPTY, None)])
        assert "node-0" in (store.query(query(filters=empty)).ids or [])
    rare = MetadataFilters(filters=[one("rare", FilterOperator.IS_EMPTY, None)], condition=FilterCondition.NOT)
    assert store.query(query(filters=rare)).ids == ["node-70"]


def test_what_vicinal_does_not_have_is_refused(store: VicinalVectorStore) -> None:
    text = MetadataFilters(filters=[one("kind", FilterOperator.TEXT_MATCH, "ev")])
    with pytest.raises(ValueError, match="text_match"):
        store.query(query(filters=text))
    with pytest.raises(ValueError, match="hybrid"):
        store.query(query(mode=VectorStoreQueryMode.HYBRID))
    with pytest.raises(ValueError, match="no embedding"):
        store.query(VectorStoreQuery())


def test_nodes_come_back_as_they_were(store: VicinalVectorStore) -> None:
    found = store.get_nodes(["node-70", "node-0", "none"])
    originals = {node.node_id: node for node in nodes()}
    assert [node.node_id for node in found] == ["node-0", "node-70"]
    for node in found:
        original = originals[node.node_id]
        assert isinstance(node, TextNode)
        assert (node.text, node.metadata, node.ref_doc_id) == (original.text, original.metadata, original.ref_doc_id)


def test_large_metadata_are_stored_once(store: VicinalVectorStore) -> None:
    metadata = {"notes": "\u00e4" * 20_000, "page": 1}
    related = {
        NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc", metadata=metadata),
        NodeRelationship.NEXT: RelatedNodeInfo(node_id="next", metadata={**metadata, "page": 2}),
        NodeRelationship.CHILD: [RelatedNodeInfo(node_id="child", metadata=metadata)],
    }
    node = TextNode(id_="large", text="x", metadata=metadata, relationships=related, embedding=direction(0))
    store.add([node])
    (found,) = store.get_nodes(["large"])
    assert found.metadata == metadata
    assert found.relationships == related


def test_metadata_come_back_as_llamaindex_writes_them(store: VicinalVectorStore) -> None:
    metadata: dict[str, Any] = {
        "z": 1,
        "a.b": 2,
        "none": None,
        "empty": [],
        "whole": 3.0,
        "big": 2**53 + 1,
        "nested": {"a.b": [1, None]},
        "flag": True,
        "tags": ["a", "b"],
        "doc_id": "mine",
    }
    times = {"at": datetime(2026, 11, 27), "day": date(2026, 11, 27), "price": Decimal("9.99"), "id": UUID(int=7)}
    node = TextNode(id_="odd", text="x", metadata={**metadata, **times}, embedding=direction(0))
    store.add([node])
    (found,) = store.get_nodes(["odd"])
    texts = {"at": "2026-11-27T00:00:00", "day": "2026-11-27", "price": "9.99", "id": str(UUID(int=7))}
    assert found.metadata == {**metadata, **texts}
    assert list(found.metadata) == [*metadata, *texts]
    assert isinstance(found.metadata["whole"], float)
    path = MetadataFilters(filters=[one("a.b", FilterOperator.EQ, 2)])
    assert [each.node_id for each in store.get_nodes(filters=path)] == ["odd"]


def test_what_cannot_be_kept_is_named(store: VicinalVectorStore) -> None:
    bad = TextNode(id_="bad", text="x", metadata={"a": {"$b": 1}}, embedding=direction(0))
    with pytest.raises(InvalidArgumentError, match=r"node 10 \('bad'\): metadata\.a\.\$b cannot be kept"):
        store.add([*nodes(), bad])
    with pytest.raises(TypeError, match="filter"):
        store.delete_nodes(["node-0"], filter=MetadataFilters(filters=[LEAVES[0]]))
    assert store.client.count() == 10


def test_queries_can_be_restricted_to_ids(store: VicinalVectorStore) -> None:
    assert store.query(query(node_ids=["node-50", "node-40"])).ids == ["node-40", "node-50"]
    assert store.query(query(top_k=2, doc_ids=["doc-1"])).ids == ["node-50", "node-60"]


def test_marginal_relevance_spreads_the_results(store: VicinalVectorStore) -> None:
    far = store.query(query(top_k=3, mode=VectorStoreQueryMode.MMR, mmr_threshold=0.1))
    assert far.ids is not None
    assert far.ids[:2] == ["node-0", "node-90"]
    near = store.query(query(top_k=3, mode=VectorStoreQueryMode.MMR, mmr_threshold=1.0))
    assert near.ids == ["node-0", "node-10", "node-20"]


def test_nodes_are_replaced_and_deleted(store: VicinalVectorStore) -> None:
    store.add([TextNode(id_="node-0", text="new", embedding=direction(0))])
    assert store.client.count() == 10
    store.delete_nodes(["node-0"])
    store.delete("doc-1")
    assert [node.node_id for node in store.get_nodes()] == ["node-10", "node-20", "node-30", "node-40"]
    store.delete_nodes(filters=MetadataFilters(filters=[LEAVES[4]]))
    store.delete_nodes()
    assert [node.node_id for node in store.get_nodes()] == ["node-30", "node-40"]
    store.clear()
    assert store.query(query()).ids == []


@pytest.mark.parametrize("has_client", [True, False])
def test_async_methods_do_the_same(service: Service, client: Vicinal, has_client: bool) -> None:
    async def use() -> None:
        async with AsyncVicinal(service.grpc_url, api_key=API_KEY) as asynchronous:
            store = VicinalVectorStore(client, "async", async_client=asynchronous if has_client else None)
            await store.async_add(nodes())
            assert (await store.aquery(query(top_k=2))).ids == ["node-0", "node-10"]
            assert len(await store.aget_nodes(filters=MetadataFilters(filters=[LEAVES[4]]))) == 3
            await store.adelete("doc-1")
            await store.adelete_nodes(["node-0"])
            assert store.client.count() == 4
            await store.aclear()
            assert store.client.count() == 0

    asyncio.run(use())


class Letters(BaseEmbedding):
    """Counts letters."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def test_an_index_works_over_it(client: Vicinal) -> None:
    store = VicinalVectorStore(client, "index")
    documents = [Document(text=text, doc_id=text) for text in ("a fox in the forest", "a whale in the sea")]
    index = VectorStoreIndex.from_documents(
        documents, StorageContext.from_defaults(vector_store=store), embed_model=Letters()
    )
    found = index.as_retriever(similarity_top_k=1).retrieve("foxes and forests")
    assert [each.node.get_content() for each in found] == ["a fox in the forest"]
    index.delete_ref_doc("a fox in the forest")
    assert [each.node.get_content() for each in index.as_retriever().retrieve("fox")] == ["a whale in the sea"]
