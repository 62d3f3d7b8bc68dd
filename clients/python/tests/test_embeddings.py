from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from embedding_endpoint import MODEL, Endpoint, embedding_of
from real_service import API_KEY, Service

from vicinal import AsyncVicinal, Include, InvalidArgumentError, NewPoint, Query, RerankUnavailableError, Text, Vicinal

from .clients import waiting


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as running:
        yield running


@pytest.fixture(scope="module")
def embedding_service(tmp_path_factory: pytest.TempPathFactory, endpoint: Endpoint) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("embedded"), **endpoint.settings) as running:
        yield running


@pytest.fixture(params=["http", "async http", "grpc", "async grpc"])
def texts(request: pytest.FixtureRequest, embedding_service: Service, runner: asyncio.Runner) -> Iterator[Vicinal]:
    """An empty collection of a service with embeddings."""
    url = embedding_service.grpc_url if "grpc" in request.param else embedding_service.url
    name = f"texts-{uuid.uuid4()}"
    if "async" in request.param:
        asynchronous = AsyncVicinal(url, api_key=API_KEY)
        client = waiting(asynchronous, runner)
    else:
        client = Vicinal(url, api_key=API_KEY)
    client.collections.put(name)
    yield client.collection(name)
    client.close()


def test_contents_and_texts_take_the_place_of_vectors(texts: Vicinal) -> None:
    one = texts.insert(None, "aab")
    two, three = texts.insert_batch(
        [NewPoint(content="bbb"), NewPoint(vector=Text("ccc"), content="c.png", content_type="Image")]
    )
    assert [list(texts.get(id).vector) for id in (one, two, three)] == [
        embedding_of(text) for text in ("aab", "bbb", "ccc")
    ]
    assert texts.search(Text("bb"), "Euclidean", limit=1).ids == [two]
    queries = [Query(metric="Euclidean", near=Text(text), limit=1) for text in ("cc", "aaab")]
    assert [result.ids for result in texts.search_batch(queries)] == [[three], [one]]


def test_a_point_is_put_and_patched_by_text(texts: Vicinal) -> None:
    id = str(uuid.uuid4())
    texts.put(id, None, "ab")
    assert list(texts.get(id).vector) == embedding_of("ab")
    texts.put(id, Text("abc"), "ab")
    assert list(texts.get(id).vector) == embedding_of("abc")
    texts.patch(id, content="ccc")
    assert list(texts.get(id).vector) == embedding_of("abc")
    texts.patch(id, vector=Text("ccc"))
    assert list(texts.get(id).vector) == embedding_of("ccc")


def test_many_texts_are_inserted_in_batches(texts: Vicinal) -> None:
    ids = texts.insert_all((NewPoint(content="a" * number) for number in range(1, 30)), batch_size=10)
    assert list(texts.get(ids[28]).vector) == embedding_of("a" * 29)


def test_collections_name_the_model(texts: Vicinal) -> None:
    assert {info.embedding_model for info in texts.collections.list()} == {MODEL}


def test_the_best_are_reranked(texts: Vicinal, endpoint: Endpoint) -> None:
    long, short = texts.insert_batch([NewPoint(content="a b c of letters"), NewPoint(content="abc")])
    near = Text("a b c of letters")
    plain = texts.search(near, "Euclidean")
    assert plain.ids == [long, short]
    ranked = texts.search(near, "Euclidean", limit=2, rerank=2, include=Include(scores=True))
    assert [(hit.id, hit.rerank, hit.score) for hit in ranked.hits] == [(short, 1 / 3, 1 / 3), (long, 1 / 16, 1 / 16)]
    endpoint.rerank_fails = True
    try:
        with pytest.raises(RerankUnavailableError, match=r"failed \(503\)") as raised:
            texts.search(near, "Euclidean", limit=2, rerank=2)
        assert raised.value.reason == "rerank_unavailable"
        assert texts.search(near, "Euclidean", limit=2, rerank=2, on_error="skip").ids == plain.ids
    finally:
        endpoint.rerank_fails = False


def test_without_embeddings_a_text_is_refused(points: Vicinal) -> None:
    with pytest.raises(InvalidArgumentError, match="vector is missing"):
        points.insert(None, "ab")
    with pytest.raises(InvalidArgumentError, match="text cannot be embedded: the service has no embeddings"):
        points.search(Text("ab"), "Cosine")
    assert points.collections.get("default").embedding_model is None
