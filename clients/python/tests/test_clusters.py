"""The headers that the client sends to the nodes of a cluster, and how it uses those in their answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from vicinal import (
    NO_RETRY,
    AsyncVicinal,
    ConnectionFailedError,
    Consistency,
    InvalidArgumentError,
    NotReadyError,
    Retry,
    Vicinal,
    VicinalError,
)
from vicinal.clusters import Session

from .answering_node import Answer, AnsweringNode
from .clients import waiting

KINDS = ["http", "async http", "grpc", "async grpc"]
SOON = Retry(first_delay_s=0.001)


def at(position: int) -> Answer:
    return Answer({"vicinal-position": str(position)})


@pytest.fixture
def node() -> Iterator[AnsweringNode]:
    with AnsweringNode() as one:
        yield one


@contextmanager
def client_of(
    kind: str, node: AnsweringNode, runner: asyncio.Runner, consistency: Consistency | None = None
) -> Iterator[Vicinal]:
    with client_of_all(kind, [node], runner, consistency) as one:
        yield one


@contextmanager
def client_of_all(
    kind: str, nodes: list[AnsweringNode], runner: asyncio.Runner, consistency: Consistency | None = None
) -> Iterator[Vicinal]:
    urls = [node.grpc_url if "grpc" in kind else node.url for node in nodes]
    url = urls[0] if len(urls) == 1 else urls
    if "async" in kind:
        asynchronous = AsyncVicinal(url, retry=SOON, consistency=consistency)
        yield waiting(asynchronous, runner)
        runner.run(asynchronous.close())
    else:
        with Vicinal(url, retry=SOON, consistency=consistency) as one:
            yield one


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, node: AnsweringNode, runner: asyncio.Runner) -> Iterator[Vicinal]:
    with client_of(request.param, node, runner) as one:
        yield one


READS: list[Callable[..., Any]] = [
    lambda points, **asked: points.search([1, 2], "Cosine", **asked),
    lambda points, **asked: points.search_batch([], **asked),
    lambda points, **asked: points.list_points(**asked),
    lambda points, **asked: points.count(**asked),
    lambda points, **asked: points.facets(["a"], **asked),
    lambda points, **asked: list(points.iterate(**asked)),
]


def test_each_request_names_the_highest_position_that_was_seen(client: Vicinal, node: AnsweringNode) -> None:
    node.answers = [at(7), at(5), at(12), Answer()]
    for _ in range(5):
        assert client.count() == 3
    assert [request.get("vicinal-position") for request in node.requests] == [None, "7", "7", "12", "12"]


def test_a_service_by_itself_is_told_nothing(client: Vicinal, node: AnsweringNode) -> None:
    for read in READS:
        read(client)
    client.delete("7a4b9a5e-3f5b-4d4e-9d0a-1c3c2b1a0f9e")
    assert node.requests == [{}] * 7


def test_clients_of_other_collections_have_seen_the_same(client: Vicinal, node: AnsweringNode) -> None:
    node.answers = [at(3), at(9)]
    client.collections.delete("old")
    client.collection("one").count()
    client.collection("two").count()
    client.collections.delete("old")
    assert [request.get("vicinal-position") for request in node.requests] == [None, "3", "9", "9"]


def test_a_refusal_has_a_position_too_and_the_next_try_sends_it(client: Vicinal, node: AnsweringNode) -> None:
    node.answers = [
        Answer(at(4).headers, 503, "no node answers for 9 partitions of the cluster: try again later"),
        Answer(at(6).headers, 400, "this is wrong"),
    ]
    with pytest.raises(InvalidArgumentError, match="this is wrong"):
        client.count()
    client.count()
    assert [request.get("vicinal-position") for request in node.requests] == [None, "4", "6"]


def test_what_is_no_position_is_not_repeated(client: Vicinal, node: AnsweringNode) -> None:
    for position in ("-1", "1e3", "99999999999999999999", "9999999999999999"):
        node.answers = [Answer({"vicinal-position": position})]
        client.count()
    assert node.requests == [{}] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_how_new_answers_are_is_the_client_s_choice_and_the_call_s(
    kind: str, node: AnsweringNode, runner: asyncio.Runner
) -> None:
    with client_of(kind, node, runner, "latest") as client:
        client.count()
        client.collection("one").count(consistency="available")
        client.collections.list(consistency="session")
        client.collections.list()
    with client_of(kind, node, runner) as client:
        client.count(consistency="latest")
        client.count()
    levels = [request.get("vicinal-consistency") for request in node.requests]
    assert levels == ["latest", "available", "session", "latest", "latest", None]


def test_every_read_can_say_how_new_its_answer_must_be(client: Vicinal, node: AnsweringNode) -> None:
    for read in READS:
        read(client, consistency="available")
        assert node.requests[-1]["vicinal-consistency"] == "available"


def test_a_read_refuses_an_unknown_consistency(client: Vicinal, node: AnsweringNode) -> None:
    newest: Any = "newest"
    with pytest.raises(InvalidArgumentError, match="one of session, latest, available, not 'newest'"):
        client.count(consistency=newest)
    assert node.requests == []


@pytest.mark.parametrize("make", [Vicinal, AsyncVicinal])
@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "grpc://127.0.0.1:9"])
def test_a_client_refuses_an_unknown_consistency(make: Callable[..., object], url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="consistency must be one of session, latest, available, not 'old'"):
        make(url, consistency="old")


@pytest.mark.parametrize("make", [Vicinal, AsyncVicinal])
@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "grpc://127.0.0.1:9"])
def test_a_client_refuses_a_key_that_cannot_be_sent(make: Callable[..., object], url: str) -> None:
    make(url, api_key="of-a-file\n")
    for key in ("two\nlines", "a\ttab", "schlüssel"):
        with pytest.raises(InvalidArgumentError, match="the header authorization may have only printable ASCII"):
            make(url, api_key=key)
    with pytest.raises(InvalidArgumentError, match="the header authorization is a int: a text is needed"):
        make(url, api_key=5)


def test_a_change_that_may_be_stored_is_repeated_only_if_that_is_safe(client: Vicinal, node: AnsweringNode) -> None:
    doubt = "the write may have been stored: repeat it with the same idempotency key"
    node.answers = [Answer(at(1).headers, 503, doubt)] * 2
    with pytest.raises(NotReadyError, match="may have been stored"):
        client.delete_where({"a": 1})
    assert len(node.requests) == 1
    client.delete("7a4b9a5e-3f5b-4d4e-9d0a-1c3c2b1a0f9e")
    assert len(node.requests) == 3


@pytest.mark.parametrize("kind", ["http", "async http"])
def test_downloads_and_counts_are_part_of_it(
    kind: str, node: AnsweringNode, runner: asyncio.Runner, tmp_path: Path
) -> None:
    with client_of(kind, node, runner) as client:
        node.answers = [at(8), Answer(at(11).headers, 400, "no"), at(12)]
        client.count()
        with pytest.raises(InvalidArgumentError):
            client.snapshot(tmp_path / "none", consistency="latest")
        client.count(consistency="available")
        client.health()
    assert node.requests[1:] == [
        {"vicinal-position": "8", "vicinal-consistency": "latest"},
        {"vicinal-position": "11", "vicinal-consistency": "available"},
        {"vicinal-position": "12"},
    ]


def test_an_error_of_the_connection_is_not_taken_for_an_error_of_a_node(node: AnsweringNode) -> None:
    words = "no node answers for 9 partitions of the cluster: try again later"
    for headers, kind in ((at(1).headers, NotReadyError), ({}, ConnectionFailedError)):
        node.answers = [Answer(headers, 503, words)]
        with Vicinal(node.grpc_url, retry=NO_RETRY) as client, pytest.raises(VicinalError) as raised:
            client.count()
        assert type(raised.value) is kind


def test_threads_that_note_positions_keep_the_highest() -> None:
    session = Session()

    def note(first: int) -> None:
        for position in range(first, 4_000, 4):
            session.note(str(position))
            session.note("17")

    threads = [threading.Thread(target=note, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.headers == {"vicinal-position": "3999"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_of_several_nodes_goes_on_when_one_dies(kind: str, runner: asyncio.Runner) -> None:
    with AnsweringNode() as second:
        with AnsweringNode() as first, client_of_all(kind, [first, second], runner) as client:
            for read in READS:
                read(client)
            assert len(first.requests) == len(READS)
            assert second.requests == []
            # A node that refuses is left, too, and the next one is asked at once.
            in_an_hour = {"retry-after": "3600", "retry-after-ms": "3600000", "vicinal-reason": "not_ready"}
            first.answers = [Answer(in_an_hour, 503, "this node is being drained")]
            assert client.count() == 3
            assert len(second.requests) == 1
            second.answers = [Answer(status=503 if "grpc" in kind else 502, words="this node is being drained")]
            assert client.count() == 3
            first.stop()
            for read in READS:
                read(client)
            assert client.count() == 3
        assert len(second.requests) == 2 + len(READS) + 1


def test_a_client_of_several_nodes_needs_addresses_of_one_transport() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one address"):
        Vicinal([])
    with pytest.raises(InvalidArgumentError, match="all for HTTP or all for gRPC"):
        Vicinal(["http://127.0.0.1:1", "grpc://127.0.0.1:1"])
