"""The async transports' interface, and HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import httpx

from .errors import ClosedError
from .exchange import Pause, Retry, Send, Steps, Unanswered, exchange
from .http_codec import base_of, error_of, reader_of, response_of, unanswered
from .operation import HttpRequest, HttpResponse, Operation
from .snapshots import SnapshotFile, SnapshotInfo
from .transport import LIMITS, built

Request = TypeVar("Request")
Response = TypeVar("Response")
Result = TypeVar("Result")


class AsyncTransport(Protocol):
    """What an async client needs of a connection."""

    async def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Carry out an operation."""

    async def download(self, path: str, target: Path, retry: Retry) -> SnapshotInfo:
        """Write a snapshot to a file."""

    async def close(self) -> None:
        """Close the connection."""


async def drive(
    steps: Steps[Request, Response, Result], send: Callable[[Request], Awaitable[Response | Unanswered]]
) -> Result:
    """Carry out the steps of an exchange."""
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
    """HTTP by httpx, for one event loop."""

    def __init__(
        self, url: str, headers: Mapping[str, str], timeout_s: float, client: httpx.AsyncClient | None = None
    ) -> None:
        self._url = base_of(url)
        self._headers = dict(headers)
        self._owned = client is None
        self._client = client or httpx.AsyncClient(timeout=timeout_s, limits=LIMITS)

    async def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Carry out an operation."""
        steps = exchange(operation.request(), reader_of(operation), repeatable=operation.repeatable, retry=retry)
        return await drive(steps, self._send)

    async def download(self, path: str, target: Path, retry: Retry) -> SnapshotInfo:
        """Write a snapshot to a file."""

        async def attempt(_path: str) -> SnapshotInfo | Unanswered:
            request = self._built(HttpRequest("POST", path))
            try:
                response = await self._client.send(request, stream=True)
                try:
                    if response.status_code != 200:
                        await response.aread()
                        return Unanswered(error_of(response_of(response)), is_in_doubt=False)
                    with SnapshotFile(target) as file:
                        async for chunk in response.aiter_raw():
                            file.write(chunk)
                        return file.finish(response.headers)
                finally:
                    await response.aclose()
            except httpx.TransportError as error:
                return unanswered(error, self._url)

        steps: Steps[str, SnapshotInfo, SnapshotInfo] = exchange(path, lambda info: info, repeatable=True, retry=retry)
        return await drive(steps, attempt)

    async def close(self) -> None:
        """Close the connections, unless they are the caller's."""
        if self._owned:
            await self._client.aclose()

    def _built(self, request: HttpRequest) -> httpx.Request:
        if self._client.is_closed:
            raise ClosedError("the client is closed")
        return built(self._client, self._url, self._headers, request)

    async def _send(self, request: HttpRequest) -> HttpResponse | Unanswered:
        try:
            return response_of(await self._client.send(self._built(request)))
        except httpx.TransportError as error:
            return unanswered(error, self._url)
