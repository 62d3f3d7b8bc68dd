"""LangChain's vector store over Vicinal, the vector database."""

from .vector_store import VicinalVectorStore

__all__ = ["VicinalVectorStore"]
