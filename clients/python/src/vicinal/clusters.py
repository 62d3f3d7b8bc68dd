"""
What a client tells the nodes of a cluster, and what they tell it: headers of HTTP, metadata of gRPC. A service by
itself has no use for it; requests to one carry nothing of it unless the caller asks for it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from .errors import InvalidArgumentError

Consistency: TypeAlias = Literal["session", "latest", "available"]
"""
How new an answer has to be: at least as new as everything that this client has seen; as everything that was
acknowledged before, to anyone, which costs a round trip to the cluster's log; or as it happens to be.
"""

POSITION = "vicinal-position"
"""In a request what the client has seen, in an answer how far the node is."""
PARTIAL = "vicinal-partial"
"""In a request whether the answer may be partial, in an answer how much is missing."""
_CONSISTENCY = "vicinal-consistency"

_POSITION_TEXT = re.compile(r"[0-9]{1,16}")
_POSITION_MAX = 2**53 - 1
_MISSING_TEXT = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")
_WAIT_MS_MAX = 999_999_999
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Missing:
    """How much of the points an answer could not be made from: `partitions` of all, which are `of`."""

    partitions: int
    of: int


OnPartial: TypeAlias = Callable[[Missing], object]
"""Is called before a partial answer is returned. Whatever it raises takes the answer's place."""


class Session:
    """
    What a client has seen of a cluster, and how new all its answers have to be. Clients made of each other share it,
    and threads may.
    """

    def __init__(self, consistency: Consistency | None = None) -> None:
        self.consistency = _checked(consistency)
        self._lock = threading.Lock()
        self._seen: tuple[int, Mapping[str, str]] = (-1, _NOTHING)

    @property
    def headers(self) -> Mapping[str, str]:
        """What the next request says: nothing before an answer had a position."""
        return self._seen[1]

    def note(self, position: str | None) -> None:
        """Take note of an answer's position, if it has one."""
        if position is None or _POSITION_TEXT.fullmatch(position) is None:
            return
        number = int(position)
        # Looked at without the lock first: most answers are no newer than what was seen.
        if number <= self._seen[0] or number > _POSITION_MAX:
            return
        with self._lock:
            if number > self._seen[0]:
                self._seen = (number, {POSITION: str(number)})

    def asked(
        self, consistency: Consistency | None, on_partial: OnPartial | None = None, partial_after_s: float | None = None
    ) -> Mapping[str, str]:
        """Return what all tries of a call say of its answer, or refuse what none can say."""
        if consistency is None and on_partial is None and partial_after_s is None and self.consistency is None:
            return _NOTHING
        level = self.consistency if consistency is None else _checked(consistency)
        return {
            **({} if level is None else {_CONSISTENCY: level}),
            **_allowance(on_partial, partial_after_s),
        }


def missing_of(text: str | None) -> Missing | None:
    """Return what an answer says is missing, or None for a whole one."""
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
    # Written so that what is no number at all is refused as well.
    if not 0.001 <= after_s <= _WAIT_MS_MAX / 1000:
        raise InvalidArgumentError(f"partial_after_s must be 0.001 to {_WAIT_MS_MAX / 1000}, not {after_s!r}")
    if on_partial is None:
        raise InvalidArgumentError("partial_after_s needs on_partial")
    return {PARTIAL: f"allow; wait={round(after_s * 1000)}"}
