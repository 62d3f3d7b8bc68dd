"""A real cluster that divides the points among its nodes, with a real log server, all of them processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar
from urllib.request import urlopen

from real_service import TREE, Service, command

Value = TypeVar("Value")


def nats_server() -> Path | None:
    """The path of the nats-server that the repository's tests use, or None."""
    script = f"import {{ findNatsServer }} from {json.dumps(str(TREE / 'scripts/get-nats.ts'))}"
    print_it = "process.stdout.write(findNatsServer() ?? '')"
    found = subprocess.run(
        [TREE / "node_modules/.bin/node", "--input-type=module", "--eval", f"{script}\n{print_it}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return Path(found) if found else None


class LogServer:
    """A log server on free ports, which runs inside a `with`."""

    def __init__(self, program: Path, directory: Path) -> None:
        self._program = program
        self._directory = directory

    def __enter__(self) -> LogServer:
        folder = self._directory / "log-server"
        folder.mkdir()
        configuration = folder / "conf"
        configuration.write_text(
            f"""
            listen: "127.0.0.1:-1"
            http: "127.0.0.1:-1"
            ports_file_dir: "{folder}"
            jetstream {{ store_dir: "{folder}", sync_interval: always }}
            """
        )
        with (folder / "output").open("wb") as output:
            self._process = subprocess.Popen([self._program, "-c", configuration], stderr=output)
        self._ports = until(lambda: self._ports_in(folder), "the log server reports its ports")
        command("cluster", "found", **self._settings)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def node(self, name: str) -> Service:
        """A node of the cluster."""
        return Service(self._directory / name, CLUSTER_NODE_NAME=name, **self._settings)

    @property
    def _settings(self) -> dict[str, str]:
        return {
            "CLUSTER_NATS_URL": f"{self._ports['nats'][0]},{self._ports['monitoring'][0]}",
            "CLUSTER_REPLICAS": "1",
            "CLUSTER_LOG_BYTES": "1G",
        }

    def _ports_in(self, folder: Path) -> dict[str, list[str]] | None:
        assert self._process.poll() is None, (folder / "output").read_text()
        for path in folder.glob("*.ports"):
            try:
                ports: dict[str, list[str]] = json.loads(path.read_text())
            except json.JSONDecodeError:
                # The file is still being written.
                return None
            return ports
        return None


def shares_of(nodes: dict[str, Service]) -> dict[str, int]:
    """How many partitions each node has, once every partition is only on the nodes that should have it."""
    return until(lambda: _shares_if_settled(nodes), "all partitions are in place")


def _shares_if_settled(nodes: dict[str, Service]) -> dict[str, int] | None:
    shares = {}
    for name, node in nodes.items():
        status = json.loads(_read(f"{node.url}/cluster"))
        parts = status["partitions"]
        ready = [each for each in status["nodes"] if each["is_ready"]]
        if len(ready) != len(nodes) or any(parts[what] != 0 for what in ("incoming", "surplus", "under_replicated")):
            return None
        shares[name] = next(each["partitions"]["owned"] for each in ready if each["name"] == name)
        # A node drops a partition that it no longer owns when all nodes know that. Until then, it still answers for it.
        held = re.search(r"^vicinal_cluster_partitions (\d+)$", _read(f"{node.url}/metrics"), re.MULTILINE)
        if held is None or int(held[1]) != shares[name]:
            return None
    return shares


def _read(url: str) -> str:
    with urlopen(url, timeout=20) as response:
        text: str = response.read().decode()
    return text


def until(condition: Callable[[], Value | None], what: str, timeout_s: float = 120) -> Value:
    """Wait until a condition returns something, and return it."""
    end = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value is not None:
            return value
        assert time.monotonic() < end, f"not in {timeout_s} s: {what}"
        time.sleep(0.05)


def nats_server_missing() -> str:
    """Why tests of a real cluster are skipped without a nats-server. With REQUIRE_NATS=1 they fail instead."""
    assert os.environ.get("REQUIRE_NATS") != "1", "REQUIRE_NATS=1, but nats-server is missing"
    return "nats-server is missing: `npm run get:nats` installs it"
