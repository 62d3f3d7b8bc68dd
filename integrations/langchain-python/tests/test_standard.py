"""LangChain's tests of vector stores, unmodified, with threads and with an async client, over HTTP and gRPC."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests
from real_service import API_KEY, Service
from vicinal import AsyncVicinal, Vicinal

from langchain_vicinal import VicinalVectorStore

COLLECTION = "langchain"


class TestWithThreads(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, client: Vicinal) -> Iterator[VectorStore]:
        yield VicinalVectorStore(self.get_embeddings(), client, COLLECTION)
        client.collections.delete(COLLECTION)


class TestWithAnAsyncClient(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, service: Service, client: Vicinal) -> Iterator[VectorStore]:
        asynchronous = AsyncVicinal(service.grpc_url, api_key=API_KEY)
        yield VicinalVectorStore(self.get_embeddings(), client, COLLECTION, async_client=asynchronous)
        client.collections.delete(COLLECTION)


class TestOverGrpc(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, service: Service) -> Iterator[VectorStore]:
        with Vicinal(service.grpc_url, api_key=API_KEY) as client:
            yield VicinalVectorStore(self.get_embeddings(), client, COLLECTION, metric="Euclidean")
            client.collections.delete(COLLECTION)
