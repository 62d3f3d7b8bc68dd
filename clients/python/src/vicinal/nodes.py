"""Transports to several nodes of a cluster: one is called until it fails, and then the next."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from .async_transport import AsyncTransport
from .async_transport import drive as drive_async
from .clusters import Consistency
from .errors import (
    ConnectionFailedError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotReadyError,
    OverloadedError,
    VicinalError,
)
from .exchange import NO_RETRY, Retry, Steps, Unanswered, is_passing
from .forks import renew_after_fork
from .operation import Operation
from .snapshots import SnapshotInfo
from .transport import Transport, drive

Result = TypeVar("Result")
Node = TypeVar("Node")

_FAULTS_OF_A_NODE = (ConnectionFailedError, DeadlineExceededError, NotReadyError, OverloadedError)
_STATUSES_OF_A_NODE = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class _RetryAtNodes(Retry):
    """After the fault of a node, the next one is asked at once if it was not asked yet."""

    nodes: int = 1

    def delay(self, tried: int, error: VicinalError, *, is_safe: bool) -> float | None:
        is_fault = isinstance(error, _FAULTS_OF_A_NODE) and is_passing(error, is_safe=is_safe)
        if is_fault and tried < min(self.nodes, self.tries):
            return 0.0
        return Retry.delay(self, tried, error, is_safe=is_safe)


class NodeTransport(Transport, Protocol):
    """A blocking transport to one node."""

    def steps(self, operation: Operation[Result], retry: Retry) -> Steps[Any, Any, Result]:
        """Return the steps of an operation, which `send` takes at this node or at another one."""

    def send(self, request: Any) -> Any:
        """Send a request once."""


class AsyncNodeTransport(AsyncTransport, Protocol):
    """An async transport to one node."""

    def steps(self, operation: Operation[Result], retry: Retry) -> Steps[Any, Any, Result]:
        """Return the steps of an operation, which `send` takes at this node or at another one."""

    def send(self, request: Any) -> Awaitable[Any]:
        """Send a request once."""


class _Nodes(Generic[Node]):
    """Nodes that take turns. Threads may share them."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.all = nodes
        self._at = 0
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent process may hold."""
        self._lock = threading.Lock()

    @property
    def current(self) -> Node:
        return self.all[self._at]

    def retry(self, retry: Retry) -> Retry:
        """Return how a request is repeated at these nodes."""
        return _RetryAtNodes(**asdict(retry), nodes=len(self.all))

    def leave(self, node: Node) -> None:
        """Move to the next node, unless another call has already left this one."""
        with self._lock:
            if self.all[self._at] is node:
                self._at = (self._at + 1) % len(self.all)

    def judge(self, node: Node, outcome: object) -> None:
        """Leave a node whose answer says that another one may do better."""
        status = getattr(outcome, "status", None)
        is_fault = isinstance(outcome, (Unanswered, *_FAULTS_OF_A_NODE)) or status in _STATUSES_OF_A_NODE
        if is_fault:
            self.leave(node)


class NodesTransport:
    """A blocking transport to several nodes."""

    def __init__(self, nodes: Sequence[NodeTransport]) -> None:
        self._nodes = _Nodes(nodes)

    def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Run an operation."""

        def send(request: Any) -> Any:
            node = self._nodes.current
            outcome = node.send(request)
            self._nodes.judge(node, outcome)
            return outcome

        return drive(self._nodes.current.steps(operation, self._nodes.retry(retry)), send)

    def download(self, path: str, target: Path, retry: Retry, consistency: Consistency | None) -> SnapshotInfo:
        """Write a snapshot to a file."""
        for _ in self._nodes.all[1:]:
            node = self._nodes.current
            try:
                return node.download(path, target, NO_RETRY, consistency)
            except _FAULTS_OF_A_NODE:
                self._nodes.leave(node)
        return self._nodes.current.download(path, target, retry, consistency)

    def close(self) -> None:
        """Close the connections."""
        for node in self._nodes.all:
            node.close()


class AsyncNodesTransport:
    """An async transport to several nodes."""

    def __init__(self, nodes: Sequence[AsyncNodeTransport]) -> None:
        self._nodes = _Nodes(nodes)

    async def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Run an operation."""

        async def send(request: Any) -> Any:
            node = self._nodes.current
            outcome = await node.send(request)
            self._nodes.judge(node, outcome)
            return outcome

        return await drive_async(self._nodes.current.steps(operation, self._nodes.retry(retry)), send)

    async def download(self, path: str, target: Path, retry: Retry, consistency: Consistency | None) -> SnapshotInfo:
        """Write a snapshot to a file."""
        for _ in self._nodes.all[1:]:
            node = self._nodes.current
            try:
                return await node.download(path, target, NO_RETRY, consistency)
            except _FAULTS_OF_A_NODE:
                self._nodes.leave(node)
        return await self._nodes.current.download(path, target, retry, consistency)

    async def close(self) -> None:
        """Close the connections."""
        for node in self._nodes.all:
            await node.close()


def urls_in(url: str | Sequence[str]) -> Sequence[str]:
    """Return the addresses of a service: one, or those of the nodes of a cluster, all over the same transport."""
    urls = [url] if isinstance(url, str) else list(url)
    if not urls:
        raise InvalidArgumentError("url must have at least one address")
    if len({one.startswith(("grpc://", "grpcs://")) for one in urls}) > 1:
        raise InvalidArgumentError("the addresses of one client must be all for HTTP or all for gRPC")
    return urls
