"""
What a client and the nodes of a cluster exchange in HTTP headers or gRPC metadata. A single service does not need it;
requests to one do not have it unless the caller asks for it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from .errors import InvalidArgumentError
from .forks import renew_after_fork

Consistency: TypeAlias = Literal["session", "latest", "available"]
"""
How up to date an answer must be. `session`: at least everything that this client has seen. `latest`: everything that
was acknowledged before, to any client, which costs a round trip to the cluster's log. `available`: whatever the node
has.
"""

POSITION = "vicinal-position"
"""In a request, the position that the client has seen; in an answer, the newest position that it may reflect."""
_CONSISTENCY = "vicinal-consistency"

_POSITION_TEXT = re.compile(r"[0-9]{1,16}")
_POSITION_MAX = 2**53 - 1
_NOTHING: Mapping[str, str] = {}


class Session:
    """
    A client's session with a cluster: the position that it has seen, and how up to date its answers must be. A client
    and those that it makes for other collections share one session. Threads may share it.
    """

    def __init__(self, consistency: Consistency | None = None) -> None:
        self.consistency = _checked(consistency)
        self._lock = threading.Lock()
        self._seen: tuple[int, Mapping[str, str]] = (-1, _NOTHING)
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent process may hold."""
        self._lock = threading.Lock()

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the next request: empty until an answer has had a position."""
        return self._seen[1]

    def note(self, position: str | None) -> None:
        """Record an answer's position, if it has one."""
        if position is None or _POSITION_TEXT.fullmatch(position) is None:
            return
        number = int(position)
        # First compared without the lock: most answers are no newer than the session.
        if number <= self._seen[0] or number > _POSITION_MAX:
            return
        with self._lock:
            if number > self._seen[0]:
                self._seen = (number, {POSITION: str(number)})

    def asked(self, consistency: Consistency | None) -> Mapping[str, str]:
        """Return the headers that all tries of a call have, or refuse an unknown consistency."""
        level = self.consistency if consistency is None else _checked(consistency)
        return _NOTHING if level is None else {_CONSISTENCY: level}


def _checked(consistency: Consistency | None) -> Consistency | None:
    levels: Sequence[str] = get_args(Consistency)
    if consistency is None or consistency in levels:
        return consistency
    raise InvalidArgumentError(f"consistency must be one of {', '.join(levels)}, not {consistency!r}")
