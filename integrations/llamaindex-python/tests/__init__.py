"""Tests of the vector store against a real service."""
