"""
Measures how fast NumPy rows are loaded, compared with `vicinal import` of the same rows; then measures search calls, as
`search_calls.py` does. All processes share the cores of this machine. The ways to load take turns, each into a new
collection.

    .venv/bin/python bench/bulk_load.py [--rows 100000] [--dimension 384] [--rounds 5]
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("src", "test_support")]

from real_service import API_KEY, TREE, Service  # noqa: E402
from search_calls import measure_searches  # noqa: E402

from vicinal import Columns, Vicinal  # noqa: E402
from vicinal.vectors import Vector  # noqa: E402

IMPORT_SHARE_MIN = 0.8
SEARCH_TURNS = 1_000
Load = Callable[[str], float]
"""Loads the rows into the collection with this name, and returns the time in seconds."""


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--dimension", type=int, default=384)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--service-setting", action="append", default=[], metavar="NAME=VALUE")
    chosen = options.parse_args()
    rows = np.random.default_rng(7).standard_normal((chosen.rows, chosen.dimension), dtype=np.float32)
    settings = dict(setting.split("=", 1) for setting in chosen.service_setting)
    with tempfile.TemporaryDirectory() as folder, Service(Path(folder) / "data", **settings) as service:
        np.save(Path(folder) / "rows.npy", rows)
        print(f"{chosen.rows} rows x {chosen.dimension}, {chosen.rounds} rounds")
        measure_loads(service, Path(folder), rows, chosen.rounds)
        measure_searches(service, rows, SEARCH_TURNS)


def measure_loads(service: Service, folder: Path, rows: Vector, rounds: int) -> None:
    """Print the rate of each way to load, and its ratio to the rate of `vicinal import`."""
    ways: dict[str, Load] = {
        "vicinal import": lambda name: import_seconds(service, folder, name),
        "Python, HTTP": lambda name: client_seconds(service.url, rows, name),
        "Python, gRPC": lambda name: client_seconds(service.grpc_url, rows, name),
    }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    with Vicinal(service.url) as client:
        for round in range(rounds):
            # In turns, with another one first each time, because later loads find a warmer service.
            order = list(ways)[round % len(ways) :] + list(ways)[: round % len(ways)]
            for way in order:
                name = f"{way.lower().replace(', ', '-').replace(' ', '-')}-{round}"
                client.collections.put(name, rows.shape[1])
                rates[way].append(len(rows) / ways[way](name))
                stored = client.collection(name).count()
                assert stored == len(rows), f"{way} stored {stored} of {len(rows)}"
                client.collections.delete(name)
    imported = statistics.median(rates["vicinal import"])
    for way, measured in rates.items():
        rate = statistics.median(measured)
        spread = f"{min(measured):,.0f} to {max(measured):,.0f}"
        print(f"{way:15} {rate:9,.0f} rows/s ({spread}), {rate / imported:.2f} of vicinal import")
    print(f"goal: at least {IMPORT_SHARE_MIN:.2f}")


def import_seconds(service: Service, folder: Path, name: str) -> float:
    """Return the seconds that the command reports: without the start of its process, as for the clients."""
    address = service.grpc_url.removeprefix("grpc://")
    command = ["import", str(folder / "rows.npy"), "--grpc", address, "--api-key", API_KEY, "--collection", name]
    ran = subprocess.run(
        [TREE / "node_modules/.bin/node", TREE / "src/cli/main.ts", *command, "--journal", folder / f"{name}.journal"],
        check=True,
        capture_output=True,
        text=True,
    )
    words = ran.stdout + ran.stderr
    seconds = re.search(r"points in ([\d.]+) s", words)
    assert seconds is not None, words
    return float(seconds[1])


def client_seconds(url: str, rows: Vector, name: str) -> float:
    """Return the seconds that `insert_all` takes."""
    with Vicinal(url, api_key=API_KEY, collection=name) as client:
        started = time.perf_counter()
        client.insert_all(Columns(rows, [""] * len(rows)))
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
