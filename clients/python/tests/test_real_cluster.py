"""A real cluster that divides the points among its two nodes."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from real_cluster import LogServer, nats_server, nats_server_missing, shares_of
from real_service import API_KEY, Service

from vicinal import (
    NO_RETRY,
    AlreadyExistsError,
    AsyncVicinal,
    Columns,
    InvalidArgumentError,
    NewPoint,
    NotFoundError,
    NotReadyError,
    Query,
    Vicinal,
)

from .clients import waiting

KINDS = ["http", "async http", "grpc", "async grpc"]
POINTS = 300


def test_a_client_reads_its_writes_at_any_node_and_nothing_where_points_are_gone(
    tmp_path: Path, runner: asyncio.Runner
) -> None:
    program = nats_server()
    if program is None:
        pytest.skip(nats_server_missing())
    with LogServer(program, tmp_path) as log, log.node("a") as first:
        with log.node("b") as second:
            shares = shares_of({"a": first, "b": second})
            _write_and_read_in_turns(first, second)
            _fill(second)
            for kind in KINDS:
                with _client(kind, first, runner) as client:
                    _insert_with_ids(client)
            ids = _ids_at_all(first, runner)
        assert 0 < shares["b"] < 256
        for kind in KINDS:
            with _client(kind, first, runner) as client:
                _read_what_is_there(client, ids)


def _write_and_read_in_turns(first: Service, second: Service) -> None:
    with (
        httpx.Client(transport=_InTurns([first, second])) as http,
        Vicinal(first.url, retry=NO_RETRY, http_client=http) as client,
    ):
        client.collections.put("turns", 2)
        turns = client.collection("turns")
        # An odd number of requests per round, so that the next round writes to the other node.
        for _ in range(10):
            id = turns.insert([1, 2], "x")
            assert turns.get(id).content == "x"
            turns.delete(id)
            with pytest.raises(NotFoundError):
                turns.get(id)
            assert turns.count() == 0


class _InTurns(httpx.HTTPTransport):
    """Sends each request to the next node, like a load balancer."""

    def __init__(self, nodes: list[Service]) -> None:
        super().__init__()
        self._ports = itertools.cycle(httpx.URL(node.url).port for node in nodes)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(port=next(self._ports))
        return super().handle_request(request)


def _fill(node: Service) -> None:
    with Vicinal(node.url) as client:
        client.collections.put("points", 2)
        rows = np.random.default_rng(5).standard_normal((POINTS, 2))
        columns = Columns(rows, [""] * POINTS, attributes=[{"shop": row % 3} for row in range(POINTS)])
        # The ids of a request are in one partition: 60 requests reach partitions of both nodes.
        client.collection("points").insert_all(columns, batch_size=5)


def _insert_with_ids(points: Vicinal) -> None:
    """The nodes cannot decide about all ids of a batch together, so they store the others if one exists."""
    ids = [str(uuid.uuid4()) for _ in range(40)]
    given = [NewPoint(vector=[1, 2], content="with an id", id=id) for id in ids]
    with pytest.raises(InvalidArgumentError, match=r'^on_error is "abort"'):
        points.insert_batch(given)
    points.insert([1, 2], "stored before", id=ids[25])
    with pytest.raises(AlreadyExistsError, match=rf"^vectors\[25\]\.id {ids[25]} exists"):
        points.insert_all(given, batch_size=20)
    assert [points.get(id).content for id in ids[24:27]] == ["with an id", "stored before", "with an id"]
    for id in ids:
        points.delete(id)
    for _ in range(2):
        assert points.insert_all(given, batch_size=20, key_prefix=f"import of {ids[0]}") == ids
    for id in ids:
        points.delete(id)


def _ids_at_all(node: Service, runner: asyncio.Runner) -> set[str]:
    """Read with `latest` consistency: includes what another client has written through another node."""
    ids: set[str] = set()
    for kind in KINDS:
        with _client(kind, node, runner) as points:
            assert points.count(consistency="latest") == POINTS
            ids = {point.id for point in points.iterate(page_size=100, consistency="latest")}
            assert len(ids) == POINTS
    return ids


def _read_what_is_there(points: Vicinal, ids: set[str]) -> None:
    query = Query(metric="Cosine", near=[1, 2], limit=10)
    for read in (points.count, points.list_points, lambda: points.search_batch([query])):
        with pytest.raises(NotReadyError, match="no node answers"):
            read()
    # Both kinds of points are among them. A read of a missing one waits for an owner.
    is_read = is_refused = False
    for id in sorted(ids)[::5]:
        try:
            assert points.get(id).content == ""
            is_read = True
        except NotReadyError as error:
            is_refused = "no node answers" in str(error)
        if is_read and is_refused:
            return
    raise AssertionError("all points are of one node")


@contextmanager
def _client(kind: str, node: Service, runner: asyncio.Runner) -> Iterator[Vicinal]:
    url = node.grpc_url if "grpc" in kind else node.url
    if "async" in kind:
        asynchronous = AsyncVicinal(url, api_key=API_KEY, collection="points", retry=NO_RETRY)
        yield waiting(asynchronous, runner)
        runner.run(asynchronous.close())
    else:
        with Vicinal(url, api_key=API_KEY, collection="points", retry=NO_RETRY) as client:
            yield client
