"""Async connections belong to an event loop. A client may be used in several, one after another or in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from .forks import renew_after_fork

Value = TypeVar("Value")


class PerLoop(Generic[Value]):
    """
    One value for each event loop that uses it.

    :param make: makes the value for the running loop
    :param abandon: releases a value outside its loop, which may have ended
    """

    def __init__(self, make: Callable[[], Value], abandon: Callable[[Value], object]) -> None:
        self._make = make
        self._abandon = abandon
        self._made: dict[asyncio.AbstractEventLoop, Value] = {}
        self._of_parent: list[object] = []
        renew_after_fork(self)

    def value(self) -> Value:
        """Return the value of the running loop."""
        loop = asyncio.get_running_loop()
        try:
            return self._made[loop]
        except KeyError:
            self._abandon_ended()
            return self._made.setdefault(loop, self._make())

    async def close(self, close: Callable[[Value], Awaitable[object]]) -> None:
        """Close the value of the running loop, and abandon those of other loops."""
        own = self._made.pop(asyncio.get_running_loop(), None)
        while self._made:
            self._abandon(self._made.popitem()[1])
        if own is not None:
            await close(own)

    def after_fork(self) -> None:
        """Leave the parent's values alone: to release them would end the parent's connections, or change its loop."""
        self._of_parent.append(self._made)
        self._made = {}

    def _abandon_ended(self) -> None:
        for loop in list(self._made):
            if loop.is_closed():
                self._abandon(self._made.pop(loop))
