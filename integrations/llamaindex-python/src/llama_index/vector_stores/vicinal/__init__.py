"""LlamaIndex's vector store over Vicinal, the vector database."""

from llama_index.vector_stores.vicinal.base import VicinalVectorStore

__all__ = ["VicinalVectorStore"]
