from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest

from vicinal import (
    NO_RETRY,
    AsyncVicinal,
    ConnectionFailedError,
    IfMatches,
    NewPoint,
    NotReadyError,
    OverloadedError,
    Retry,
    Vicinal,
)
from vicinal.exchange import Pause, Send, exchange

from .clients import waiting
from .faulty_proxy import FaultyProxy

SOON = Retry(first_delay_s=0.001)


@pytest.fixture(params=["http", "async http"])
def client(request: pytest.FixtureRequest, proxy: FaultyProxy, runner: asyncio.Runner) -> Iterator[Vicinal]:
    if request.param == "http":
        with Vicinal(proxy.url, retry=SOON) as one:
            yield one
    else:
        asynchronous = AsyncVicinal(proxy.url, retry=SOON)
        yield waiting(asynchronous, runner)
        runner.run(asynchronous.close())


def test_an_insert_whose_answer_was_lost_is_stored_once(points: Vicinal, proxy: FaultyProxy) -> None:
    proxy.faults = ["lose the answer", "overloaded", "lose the answer"]
    id = points.insert([1, 2], "x")
    assert points.search([1, 2], "Cosine", include=None).ids == [id]
    keys = {key for path, key in proxy.requests if path.endswith("/points")}
    assert len(keys) == 1
    assert None not in keys


def test_a_batch_whose_answer_was_lost_is_stored_once(points: Vicinal, proxy: FaultyProxy) -> None:
    proxy.faults = ["lose the answer", "lose the request"]
    ids = points.insert_batch([NewPoint(vector=[1, number], content="x") for number in range(3)])
    assert sorted(points.search([1, 2], "Cosine", include=None).ids) == sorted(ids)


def test_two_inserts_have_two_keys(points: Vicinal, proxy: FaultyProxy) -> None:
    assert points.insert([1, 2], "x") != points.insert([1, 2], "x")
    keys = [key for path, key in proxy.requests if path.endswith("/points")]
    assert len(set(keys)) == 2


def test_refusals_are_repeated_whatever_the_operation(client: Vicinal, proxy: FaultyProxy) -> None:
    client.collections.put("refused")
    proxy.faults = ["overloaded", "not ready", "overloaded"]
    client.collections.delete("refused")
    assert not proxy.faults


def test_a_delete_of_a_collection_is_not_repeated_in_doubt(client: Vicinal, proxy: FaultyProxy) -> None:
    client.collections.put("in-doubt")
    proxy.faults = ["lose the answer"]
    with pytest.raises(ConnectionFailedError):
        client.collections.delete("in-doubt")
    assert "in-doubt" not in [info.name for info in client.collections.list()]


def test_a_put_is_repeated_in_doubt_unless_it_has_a_condition(points: Vicinal, proxy: FaultyProxy) -> None:
    id = str(uuid.uuid4())
    proxy.faults = ["lose the answer"]
    assert not points.put(id, [1, 2], "x").created
    proxy.faults = ["lose the answer"]
    with pytest.raises(ConnectionFailedError):
        points.put(id, [1, 2], "y", when=IfMatches({"$content_type": "Text"}))
    proxy.faults = ["lose the request", "lose the answer"]
    points.patch(id, set={"a": 1})
    assert (points.get(id).content, points.get(id).attributes) == ("y", {"a": 1})


def test_a_change_by_filter_is_not_repeated_in_doubt(points: Vicinal, proxy: FaultyProxy) -> None:
    points.insert_batch([NewPoint(vector=[1, number], content="x") for number in range(5)])
    proxy.faults = ["lose the answer"]
    with pytest.raises(ConnectionFailedError):
        points.delete_where({"$content_type": "Text"}, limit=2)
    proxy.faults = ["lose the answer"]
    assert points.delete_where({"$content_type": "Text"}, dry_run=True).changed == 3


def test_reads_are_repeated_when_a_proxy_fails(client: Vicinal, proxy: FaultyProxy) -> None:
    proxy.faults = ["bad gateway", "lose the request", "lose the answer"]
    assert client.health() == "OK"


def test_tries_come_to_an_end(client: Vicinal, proxy: FaultyProxy) -> None:
    proxy.faults = ["not ready"] * 5
    with pytest.raises(NotReadyError, match="not ready"):
        client.health()
    assert not proxy.faults


def test_a_retry_after_beyond_the_limit_is_not_waited_for(client: Vicinal, proxy: FaultyProxy) -> None:
    proxy.faults = ["come in an hour", "overloaded"]
    with pytest.raises(OverloadedError) as raised:
        client.health()
    assert raised.value.retry_after == 3600
    assert proxy.faults == ["overloaded"]


def test_without_retries_there_is_one_request(proxy: FaultyProxy) -> None:
    proxy.faults = ["overloaded"]
    with Vicinal(proxy.url, retry=NO_RETRY) as client, pytest.raises(OverloadedError):
        client.health()
    assert len(proxy.requests) == 1


def test_delays_double_up_to_a_limit_and_honour_retry_after() -> None:
    retry = Retry(tries=6, first_delay_s=1, max_delay_s=4)
    refusals = [OverloadedError("wait", retry_after=after) for after in (None, None, 30, None, 2)]

    def read(response: OverloadedError | str) -> str:
        if isinstance(response, OverloadedError):
            raise response
        return response

    steps = exchange("request", read, repeatable=False, retry=retry)
    assert steps.send(None) == Send("request")
    delays = []
    for refusal in refusals:
        pause = steps.send(refusal)
        assert isinstance(pause, Pause)
        delays.append(pause.seconds)
        assert steps.send(None) == Send("request")
    for delay, (low, high) in zip(delays, [(0.5, 1), (1, 2), (30, 30), (2, 4), (2, 4)], strict=True):
        assert low <= delay <= high
    with pytest.raises(StopIteration) as end:
        steps.send("answer")
    assert end.value.value == "answer"
