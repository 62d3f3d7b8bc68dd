"""The open connections of a client to its one service, blocking or async."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

NOT_SHARED = (
    "http_client was used before a fork, or in another event loop: its connections cannot be shared; "
    "create it, and the client of Vicinal, in each process and loop"
)
CONNECTIONS_MAX = 100
"""Requests beyond it wait for a connection."""
_IDLE_CONNECTIONS_MAX = 20
_IDLE_CONNECTION_S = 5.0
"""Shorter than any service or proxy keeps an idle connection, so that a request rarely uses a closing one."""


class PooledConnection(Protocol):
    """What the pool needs to know about a connection."""

    @property
    def is_reusable(self) -> bool:
        """Whether its last answer was read to the end, and the service keeps it open."""

    @property
    def is_readable(self) -> bool:
        """Whether data has arrived. On an idle connection, this means that the service has closed it."""

    def close(self) -> None:
        """Close the connection, even if it is in use."""


Connection = TypeVar("Connection", bound=PooledConnection)


class Pool(Generic[Connection]):
    """
    Keeps idle connections for the next requests, and tracks those in use, to close them. Threads may share it. Its
    owner must bound the number of connections in use.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_closed = False
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: deque[tuple[float, Connection]] = deque()
        """Pairs of expiry and connection; the most recently used one is last."""
        self._used: set[Connection] = set()

    def take(self) -> Connection | None:
        """Return an idle connection that is still usable, or None."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                expires_at, connection = self._idle.pop()
                self._used.add(connection)
            if self._clock() < expires_at and not connection.is_readable:
                return connection
            self._close(connection)

    def add(self, connection: Connection) -> None:
        """Track a new connection, which is in use."""
        with self._lock:
            self._used.add(connection)
        if self.is_closed:
            self._close(connection)

    def put_back(self, connection: Connection) -> None:
        """Keep a connection that is no longer in use, or close it."""
        now = self._clock()
        with self._lock:
            if keeps := connection.is_reusable and not self.is_closed:
                self._used.discard(connection)
                self._idle.append((now + _IDLE_CONNECTION_S, connection))
            too_many = len(self._idle) > _IDLE_CONNECTIONS_MAX
            oldest = self._idle.popleft()[1] if self._idle and (too_many or self._idle[0][0] < now) else None
        if not keeps:
            self._close(connection)
        if oldest is not None:
            oldest.close()

    def close(self) -> None:
        """Close all connections, including those in use."""
        for connection in self.end():
            connection.close()

    def end(self) -> list[Connection]:
        """Keep no more connections, and return all of them, including those in use."""
        with self._lock:
            self.is_closed = True
            return self._remove_all()

    def after_fork(self) -> None:
        """Close the connections in this process, which does not end them: the parent process has them, too."""
        self._lock = threading.Lock()
        for connection in self._remove_all():
            connection.close()

    def _remove_all(self) -> list[Connection]:
        connections = [*self._used, *(connection for _, connection in self._idle)]
        self._used.clear()
        self._idle.clear()
        return connections

    def _close(self, connection: Connection) -> None:
        with self._lock:
            self._used.discard(connection)
        connection.close()
