"""
What a client and the nodes of a cluster exchange in HTTP headers or gRPC metadata. A single service does not need it;
requests to one do not have it unless the caller asks for it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
PARTIAL = "vicinal-partial"
"""In a request, whether the answer may be partial; in an answer, how many partitions are missing."""
_CONSISTENCY = "vicinal-consistency"

_POSITION_TEXT = re.compile(r"[0-9]{1,16}")
_POSITION_MAX = 2**53 - 1
_MISSING_TEXT = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")
_WAIT_MS_MAX = 999_999_999
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Missing:
    """How many partitions of the points a partial answer lacks: `partitions` out of `of`."""

    partitions: int
    of: int


OnPartial: TypeAlias = Callable[[Missing], object]
"""Called before a partial answer is returned. If it raises an exception, the call raises that instead of returning."""


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

    def asked(
        self, consistency: Consistency | None, on_partial: OnPartial | None = None, partial_after_s: float | None = None
    ) -> Mapping[str, str]:
        """Return the headers that all tries of a call have, or refuse invalid parameters."""
        if consistency is None and on_partial is None and partial_after_s is None and self.consistency is None:
            return _NOTHING
        level = self.consistency if consistency is None else _checked(consistency)
        return {
            **({} if level is None else {_CONSISTENCY: level}),
            **_allowance(on_partial, partial_after_s),
        }


def missing_of(text: str | None) -> Missing | None:
    """Return how much an answer lacks, or None for a complete one."""
    found = None if text is None else _MISSING_TEXT.fullmatch(text)
    return None if found is None else Missing(int(found[1]), int(found[2]))


def _checked(consistency: Consistency | None) -> Consistency | None:
    levels: Sequence[str] = get_args(Consistency)
    if consistency is None or consistency in levels:
        return consistency
    raise InvalidArgumentError(f"consistency must be one of {', '.join(levels)}, not {consistency!r}")


def _allowance(on_partial: OnPartial | None, after_s: float | None) -> Mapping[str, str]:
    if on_partial is not None and not callable(on_partial):
        raise InvalidArgumentError(f"on_partial must be a function of what is missing, not {on_partial!r}")
    if after_s is None:
        return {} if on_partial is None else {PARTIAL: "allow"}
    # Written so that NaN is refused as well.
    if not 0.001 <= after_s <= _WAIT_MS_MAX / 1000:
        raise InvalidArgumentError(f"partial_after_s must be 0.001 to {_WAIT_MS_MAX / 1000}, not {after_s!r}")
    if on_partial is None:
        raise InvalidArgumentError("partial_after_s needs on_partial")
    return {PARTIAL: f"allow; wait={round(after_s * 1000)}"}
