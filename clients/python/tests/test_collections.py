from __future__ import annotations

import pytest

from vicinal import (
    AlreadyExistsError,
    CollectionNotFoundError,
    Hnsw,
    InvalidArgumentError,
    QuotaExceededError,
    Quotas,
    Vicinal,
)


def test_collections_are_created_listed_and_deleted(client: Vicinal) -> None:
    collections = client.collections
    created = collections.put("glosses", 3, hnsw=Hnsw(m=32))
    assert created.created
    assert (created.info.name, created.info.dimension, created.info.points) == ("glosses", 3, 0)
    assert (created.info.hnsw.m, created.info.aliases) == (32, [])
    assert not collections.put("glosses", 3, hnsw=Hnsw(m=32)).created
    with pytest.raises(AlreadyExistsError):
        collections.put("glosses", 4)
    client.collection("glosses").insert([1, 2, 3], "x")
    assert collections.get("glosses").points == 1
    assert {"default", "glosses"} <= {info.name for info in collections.list()}
    collections.delete("glosses")
    with pytest.raises(CollectionNotFoundError) as raised:
        collections.get("glosses")
    assert raised.value.reason == "collection_not_found"
    with pytest.raises(CollectionNotFoundError):
        client.collection("glosses").insert([1, 2, 3], "x")


def test_an_alias_moves_in_one_step(client: Vicinal) -> None:
    for name, dimension in (("first", 2), ("second", 3)):
        client.collections.put(name, dimension)
    readers = client.collection("moving")
    assert client.collections.set_aliases({"moving": "first"})["moving"] == "first"
    id = readers.insert([1, 2], "x")
    assert client.collection("first").get(id).content == "x"
    client.collections.set_aliases({"moving": "second"})
    readers.insert([1, 2, 3], "y")
    assert "moving" not in client.collections.set_aliases(remove=["moving", "never-there"])


def test_an_invalid_name_never_leaves_the_client(client: Vicinal) -> None:
    for name in ("..", "", "a/b", "UPPER", "x" * 64, "x\n"):
        with pytest.raises(InvalidArgumentError, match="cannot be the name"):
            client.collection(name)
        with pytest.raises(InvalidArgumentError, match="cannot be the name"):
            client.collections.get(name)


def test_quotas_are_set_held_and_removed(client: Vicinal) -> None:
    quotas = Quotas(points=1, bytes=10**12, requests_per_second=1000, searches_in_flight=3)
    assert client.collections.put("bounded", 2, quotas=quotas).info.quotas == quotas
    assert client.collections.put("bounded", 2).info.quotas == quotas
    client.collection("bounded").insert([1, 2], "x")
    with pytest.raises(QuotaExceededError, match="points of the collection bounded would be 2, the quota is 1"):
        client.collection("bounded").insert([1, 2], "y")
    assert client.collections.put("bounded", 2, quotas=Quotas()).info.quotas is None
    client.collection("bounded").insert([1, 2], "y")
    client.collections.delete("bounded")
