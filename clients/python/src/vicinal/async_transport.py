"""The async transports' interface, and HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import httpx

from .async_connections import AsyncConnections, async_connections_to
from .clusters import POSITION, Consistency, Session
from .errors import ClosedError
from .exchange import Pause, Retry, Send, Steps, Unanswered, exchange
from .http_codec import (
    NETWORK_ERRORS,
    base_of,
    reader_of,
    refused,
    request_of,
    unanswered,
    with_headers,
)
from .loops import PerLoop
from .operation import HttpRequest, HttpResponse, Operation
from .snapshots import SnapshotFile, SnapshotInfo
from .target import Target, Tls

Request = TypeVar("Request")
Response = TypeVar("Response")
Result = TypeVar("Result")


class AsyncTransport(Protocol):
    """What an async client needs from a connection."""

    async def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Run an operation."""

    async def download(self, path: str, target: Path, retry: Retry, consistency: Consistency | None) -> SnapshotInfo:
        """Write a snapshot to a file."""

    async def close(self) -> None:
        """Close the connection."""


async def drive(
    steps: Steps[Request, Response, Result], send: Callable[[Request], Awaitable[Response | Unanswered]]
) -> Result:
    """Run the steps of an exchange."""
    outcome: Response | Unanswered | None = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            result: Result = end.value
            return result
        match step:
            case Pause(seconds):
                await asyncio.sleep(seconds)
                outcome = None
            case Send(request):
                outcome = await send(request)


class AsyncHttpTransport:
    """HTTP. Each event loop has its own connections."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        timeout_s: float,
        client: httpx.AsyncClient | None = None,
        session: Session | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._url = base_of(url)
        self._session = session or Session()
        self._is_closed = False
        self._connections = PerLoop(
            async_connections_to(Target(self._url, headers, timeout_s, tls), client),
            lambda connections: connections.abandon(),
        )

    async def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Run an operation."""
        return await drive(self.steps(operation, retry), self.send)

    def steps(self, operation: Operation[Result], retry: Retry) -> Steps[HttpRequest, HttpResponse, Result]:
        """Return the steps of an operation, which `send` takes at this node or at another one."""
        return exchange(
            request_of(operation, self._session),
            reader_of(operation),
            repeatable=operation.repeatable,
            retry=retry,
        )

    async def download(self, path: str, target: Path, retry: Retry, consistency: Consistency | None) -> SnapshotInfo:
        """Write a snapshot to a file."""

        async def attempt(request: HttpRequest) -> SnapshotInfo | Unanswered:
            connections = self._open_connections()
            try:
                async with connections.stream(self._telling(request)) as response:
                    self._session.note(response.headers.get(POSITION))
                    if response.status != 200:
                        return refused(response, b"".join([chunk async for chunk in response.chunks]))
                    with SnapshotFile(target) as file:
                        async for chunk in response.chunks:
                            file.write(chunk)
                        return file.finish(response.headers)
            except NETWORK_ERRORS as error:
                return unanswered(error, self._url)

        steps: Steps[HttpRequest, SnapshotInfo, SnapshotInfo] = exchange(
            with_headers(HttpRequest("POST", path), self._session.asked(consistency)),
            lambda info: info,
            repeatable=True,
            retry=retry,
        )
        return await drive(steps, attempt)

    async def close(self) -> None:
        """Close the connections, unless they belong to the caller."""
        self._is_closed = True
        await self._connections.close(lambda connections: connections.close())

    async def send(self, request: HttpRequest) -> HttpResponse | Unanswered:
        """Send a request once."""
        connections = self._open_connections()
        try:
            response = await connections.send(self._telling(request))
        except NETWORK_ERRORS as error:
            return unanswered(error, self._url)
        self._session.note(response.headers.get(POSITION))
        return response

    def _telling(self, request: HttpRequest) -> HttpRequest:
        """Return a request for its next try, with the cluster position that the session has seen until then."""
        return with_headers(request, self._session.headers)

    def _open_connections(self) -> AsyncConnections:
        if not self._is_closed:
            connections = self._connections.value()
            if not connections.is_closed:
                return connections
        raise ClosedError("the client is closed")
