"""A real service in a separate process, on free ports, with a temporary data directory."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from types import TracebackType

TREE = Path(os.environ.get("VICINAL_TREE", Path(__file__).parents[3]))
"""The root of the repository."""

API_KEY = "a-key-for-tests"
READY_SECONDS = 120


PROGRAM = [TREE / "node_modules/.bin/node", TREE / "src/cli/main.ts"]
"""The command `vicinal`."""


def command(*arguments: str, **settings: str) -> None:
    """Run a command of the service's command line, which must succeed."""
    subprocess.run([*PROGRAM, *arguments], env={**os.environ, **settings}, check=True, timeout=60)


class Service:
    """A service that is started and ready inside a `with`."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        self.url = ""
        self.grpc_url = ""
        self._settings = settings

    def __enter__(self) -> Service:
        self._process = subprocess.Popen(
            [*PROGRAM, "serve"],
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "DATA_DIR": str(self.data_dir),
                "HTTP_PORT": "0",
                "GRPC_PORT": "0",
                "GRPC_ROOT_PASSWORD": API_KEY,
                "LOG_LEVEL": "info",
                "THREADS": "1",
                "SHUTDOWN_TIMEOUT_MS": "500",
                **self._settings,
            },
        )
        assert self._process.stdout is not None
        lines = []
        # A service that is never ready must not let the tests wait for ever.
        watch = threading.Timer(READY_SECONDS, self._process.kill)
        watch.start()
        for line in self._process.stdout:
            lines.append(line)
            entry = json.loads(line)
            match entry["msg"]:
                case "HTTP listens":
                    self.url = entry["url"]
                case "gRPC listens":
                    self.grpc_url = f"grpc://localhost:{entry['port']}"
                case "ready":
                    watch.cancel()
                    # Discards the log from now on: a full pipe would block the service.
                    self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)
                    self._reader.start()
                    return self
        watch.cancel()
        raise AssertionError("the service ended before it was ready:\n" + "".join(lines))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
