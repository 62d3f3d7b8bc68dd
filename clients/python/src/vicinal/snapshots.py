"""A snapshot that is being downloaded."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from .errors import ConnectionFailedError

_TRAILER_BYTES = 20
_TRAILER_MAGIC = b"VICNDONE"


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A snapshot on disk: all points as they were after the change with this sequence number."""

    path: Path
    sequence: int
    points: int
    bytes: int


class SnapshotFile:
    """
    Writes a snapshot to a temporary file next to its target, and renames it when it is complete and synced. So a file
    with the target's name is complete. `vicinal snapshot verify` checks every byte of it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        # Not the process id: in a container it is always 1, and a killed download leaves its file behind.
        self._part = self._path.with_name(f"{self._path.name}.{uuid.uuid4().hex}.part")

    def __enter__(self) -> SnapshotFile:
        self._file = self._part.open("xb")
        self._end = b""
        self._bytes = 0
        return self

    def write(self, chunk: bytes) -> None:
        """Add a piece of the download."""
        self._file.write(chunk)
        self._bytes += len(chunk)
        self._end = (self._end + chunk[-_TRAILER_BYTES:])[-_TRAILER_BYTES:]

    def finish(self, headers: Mapping[str, str]) -> SnapshotInfo:
        """Check that the download is complete, and rename the file to its target."""
        if not self._end.startswith(_TRAILER_MAGIC):
            raise ConnectionFailedError(f"the snapshot is incomplete: it ended after {self._bytes} bytes")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._part.replace(self._path)
        return SnapshotInfo(self._path, int(headers["vicinal-sequence"]), int(headers["vicinal-points"]), self._bytes)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)
