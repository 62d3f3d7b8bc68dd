"""How `help` and editors show the clients' methods."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from vicinal import ApiKeys, AsyncApiKeys, AsyncCollections, AsyncVicinal, Collections, Vicinal

PAIRS = [(Vicinal, AsyncVicinal), (Collections, AsyncCollections), (ApiKeys, AsyncApiKeys)]


def methods_of(kind: type[Any]) -> dict[str, Any]:
    return {name: method for name, method in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS)
def test_both_clients_have_the_same_methods(blocking: type[Any], asynchronous: type[Any]) -> None:
    assert methods_of(blocking).keys() == methods_of(asynchronous).keys()
    for name, method in methods_of(blocking).items():
        other = methods_of(asynchronous)[name]
        assert method.__doc__ == other.__doc__, name
        if callable(method):
            assert list(inspect.signature(method).parameters) == list(inspect.signature(other).parameters), name


def test_help_shows_parameters_and_the_return_type() -> None:
    assert Vicinal.get.__doc__
    assert str(inspect.signature(Vicinal.get)).endswith(
        "id: 'str', *, with_version: 'bool' = False, consistency: 'Consistency | None' = None) -> 'Point'"
    )
    assert "Find the points near a vector" in (inspect.getdoc(Vicinal.search) or "")
