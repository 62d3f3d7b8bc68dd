"""
Connections belong to a process. After a fork, the child must not use those of its parent: each process would receive
answers that are meant for the other.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """An object with state that a child process must not share."""

    def after_fork(self) -> None:
        """Replace that state. Called in the child, which has no other threads yet; no lock may be acquired."""


_objects: weakref.WeakSet[Forkable] = weakref.WeakSet()


def renew_after_fork(one: Forkable) -> None:
    """Call `after_fork` of an object in each process that is forked from this one."""
    _objects.add(one)


def _renew_all() -> None:
    for one in list(_objects):
        one.after_fork()


# Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
