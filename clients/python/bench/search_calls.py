"""
Measures what a search call adds to the service's time: compares the call of each client with the same bytes on a bare
connection. Both take turns with the same query, with another one first each time. The added time is the difference
within a turn, so the service's time, which grows with the rows and varies with the query, cancels out. What remains is
the work of the call: it makes the request, wakes up for the answer, and reads it. The search has just filled the caches
with vectors, so more time is added where more rows were compared. On a busy machine, look at "quickest": the shortest
time of a call minus that of a bare request.

    .venv/bin/python bench/search_calls.py [--rows 10000] [--dimension 384] [--turns 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("src", "test_support")]

from bare import bare_search  # noqa: E402
from real_service import API_KEY, Service  # noqa: E402

from vicinal import AsyncVicinal, Columns, SearchResult, Vicinal  # noqa: E402
from vicinal.operation import Place  # noqa: E402
from vicinal.search_operations import Search  # noqa: E402
from vicinal.values import Attributes  # noqa: E402
from vicinal.vectors import Vector  # noqa: E402

ADDED_MS_MAX = 1.0
COLLECTION = "searched"
WARM_UP_TURNS = 100
LIMIT = 10
Times = dict[str, list[float]]
"""Milliseconds for each kind of request, one per turn."""


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=10_000)
    options.add_argument("--dimension", type=int, default=384)
    options.add_argument("--turns", type=int, default=2_000)
    chosen = options.parse_args()
    rows = np.random.default_rng(7).standard_normal((chosen.rows, chosen.dimension), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder, Service(Path(folder) / "data") as service:
        measure_searches(service, rows, chosen.turns)


def measure_searches(service: Service, rows: Vector, turns: int) -> None:
    """Print what searches take, for both transports and both kinds of client."""
    _fill(service, rows)
    shape = f"{len(rows)} rows x {rows.shape[1]}"
    print(f"a search for {LIMIT} hits with payload, {shape}, {turns} turns, in ms: p50 (p95)")
    print(f"{'':16}{'service':>9} {'bare request':>16} {'call':>16} {'added':>16} {'quickest':>9} {'CPU':>9}")
    queries = np.random.default_rng(8).standard_normal((turns + WARM_UP_TURNS, rows.shape[1]), dtype=np.float32)
    for url in (service.url, service.grpc_url):
        times = _take_turns(url, queries)
        for kind in ("blocking", "async"):
            print(f"{url.split(':')[0]}, {kind:10}".ljust(16), end="")
            _print_times(times, kind)
    print(
        f"added: the call minus the bare request, which includes the service's time. Goal: under {ADDED_MS_MAX} at p50"
    )


def _fill(service: Service, rows: Vector) -> None:
    """Store the rows, and wait until the service has finished with them: it shares the cores of this machine."""
    with Vicinal(service.url, api_key=API_KEY) as client:
        client.collections.put(COLLECTION, rows.shape[1])
        contents = [f"the content of row {row}, as long as a title" for row in range(len(rows))]
        attributes: list[Attributes] = [{"row": row, "kind": "row"} for row in range(len(rows))]
        points = client.collection(COLLECTION)
        points.insert_all(Columns(rows, contents, attributes=attributes))
        while (state := points.stats())["waiting"] > 0 or state["settling"]:
            time.sleep(0.5)


def _take_turns(url: str, queries: Vector) -> Times:
    place = Place(COLLECTION)
    bare = bare_search(url, API_KEY, place)
    with Vicinal(url, api_key=API_KEY, collection=COLLECTION) as blocking, asyncio.Runner() as runner:
        in_loop = AsyncVicinal(url, api_key=API_KEY, collection=COLLECTION)
        times: Times = {}

        def send_bare(query: Vector) -> None:
            prepared = bare.prepare(Search(place, query, "Cosine", limit=LIMIT, profile=True))
            started = time.perf_counter()
            bare.send(prepared)
            _note(times, "bare", time.perf_counter() - started)

        def call_blocking(query: Vector) -> None:
            started, cpu = time.perf_counter(), time.process_time()
            result = blocking.search(query, "Cosine", limit=LIMIT, profile=True)
            _note_call(times, "blocking", result, time.perf_counter() - started, time.process_time() - cpu)

        async def call_async(query: Vector) -> None:
            started, cpu = time.perf_counter(), time.process_time()
            result = await in_loop.search(query, "Cosine", limit=LIMIT, profile=True)
            _note_call(times, "async", result, time.perf_counter() - started, time.process_time() - cpu)

        ways: Sequence[Callable[[Vector], None]] = [
            send_bare,
            call_blocking,
            lambda query: runner.run(call_async(query)),
        ]
        for turn, query in enumerate(queries):
            if turn == WARM_UP_TURNS:
                times.clear()
            for way in range(len(ways)):
                ways[(turn + way) % len(ways)](query)
        runner.run(in_loop.close())
    bare.close()
    return times


def _note(times: Times, what: str, seconds: float) -> None:
    times.setdefault(what, []).append(seconds * 1000)


def _note_call(times: Times, kind: str, result: SearchResult, seconds: float, cpu_seconds: float) -> None:
    profile = result.profile
    assert profile is not None
    assert len(result.hits) == LIMIT
    _note(times, kind, seconds)
    _note(times, f"{kind} service", (profile.filter_us + profile.queue_us + profile.search_us) / 1e6)
    _note(times, f"{kind} cpu", cpu_seconds)


def _print_times(times: Times, kind: str) -> None:
    added = [call - bare for call, bare in zip(times[kind], times["bare"], strict=True)]
    service, cpu = (statistics.median(times[f"{kind} {what}"]) for what in ("service", "cpu"))
    columns = " ".join(f"{_spread(each):>16}" for each in (times["bare"], times[kind], added))
    quickest = min(times[kind]) - min(times["bare"])
    print(f"{service:9.2f} {columns} {quickest:9.2f} {cpu:9.2f}")


def _spread(measured: list[float]) -> str:
    return f"{statistics.median(measured):.2f} ({statistics.quantiles(measured, n=20)[-1]:.2f})"


if __name__ == "__main__":
    main()
