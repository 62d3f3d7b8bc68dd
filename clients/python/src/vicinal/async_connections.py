"""How the async client reaches a service over HTTP: in the same way as the blocking one; see `connections.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Protocol

import httpcore
import httpx

from .answer_reader import AnswerReader
from .asyncio_stream import AsyncioStream, connect
from .errors import ClosedError
from .http_codec import httpx_arguments, response_of
from .operation import HttpRequest, HttpResponse
from .pool import CONNECTIONS_MAX, NOT_SHARED, Pool
from .target import Streamed, Target, needs_httpx, no_cookies


class AsyncConnections(Protocol):
    """What the async transport needs from a library."""

    @property
    def is_closed(self) -> bool:
        """Whether requests can no longer be sent."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the whole answer."""

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[Streamed[AsyncIterator[bytes]]]:
        """Return the answer as soon as its head has arrived."""

    async def close(self) -> None:
        """Close the connections, unless they belong to the caller."""

    def abandon(self) -> None:
        """End the connections from outside of their event loop, which may have ended."""


def async_connections_to(target: Target, client: httpx.AsyncClient | None) -> Callable[[], AsyncConnections]:
    """Return a function that makes the connections of an event loop."""
    if client is not None:
        return _Once(_AsyncHttpxConnections(target, client))
    kind = _AsyncHttpxConnections if needs_httpx(target.url) else _AsyncOwnConnections
    return lambda: kind(target)


class _Once:
    """Returns the connections over the caller's client to its first event loop, and refuses them to others."""

    def __init__(self, connections: AsyncConnections) -> None:
        self._connections = connections
        self._is_used = False

    def __call__(self) -> AsyncConnections:
        if self._is_used:
            raise ClosedError(NOT_SHARED)
        self._is_used = True
        return self._connections


class _AsyncOwnConnections:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._pool: Pool[_AsyncConnection] = Pool()
        self._free = asyncio.Semaphore(CONNECTIONS_MAX)

    @property
    def is_closed(self) -> bool:
        return self._pool.is_closed

    async def send(self, request: HttpRequest) -> HttpResponse:
        async with self.stream(request) as response:
            return HttpResponse(response.status, response.headers, b"".join([chunk async for chunk in response.chunks]))

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[Streamed[AsyncIterator[bytes]]]:
        parts = self._target.parts_of(request)
        await self._wait_until_free()
        try:
            connection = self._pool.take() or await self._connect()
            try:
                answer = await connection.ask(parts)
                yield Streamed(answer.status, answer.headers, connection.chunks(answer))
            finally:
                self._pool.put_back(connection)
        finally:
            self._free.release()

    async def close(self) -> None:
        self._pool.close()
        # The sockets are closed in the next turn of the loop. Wait for it, in case the loop ends.
        await asyncio.sleep(0)

    def abandon(self) -> None:
        for connection in self._pool.end():
            connection.abandon()

    async def _wait_until_free(self) -> None:
        try:
            # A timeout takes longer than acquiring the semaphore, and is rarely needed.
            async with asyncio.timeout(self._target.timeout_s) if self._free.locked() else nullcontext():
                await self._free.acquire()
        except TimeoutError as error:
            raise httpcore.PoolTimeout from error

    async def _connect(self) -> _AsyncConnection:
        target = self._target
        stream = await connect(target.host, target.port, target.ssl_context, target.timeout_s)
        connection = _AsyncConnection(stream, target.timeout_s)
        self._pool.add(connection)
        return connection


class _AsyncConnection:
    def __init__(self, stream: AsyncioStream, timeout_s: float) -> None:
        self.is_reusable = False
        self._stream = stream
        self._timeout_s = timeout_s

    @property
    def is_readable(self) -> bool:
        return self._stream.is_readable

    async def ask(self, parts: Sequence[bytes]) -> AnswerReader:
        """Send a request; return its answer as soon as its head has arrived."""
        self.is_reusable = False
        answer = AnswerReader()
        try:
            for part in parts:
                await self._stream.write(part, self._timeout_s)
        except httpcore.WriteError:
            # The service may have refused the request before all of it was sent; then its answer has arrived.
            pass
        while not answer.has_head:
            answer.feed(await self._stream.read(self._timeout_s))
        return answer

    async def chunks(self, answer: AnswerReader) -> AsyncIterator[bytes]:
        """Yield the body of an answer in chunks."""
        while True:
            for chunk in answer.take_body():
                yield chunk
            if answer.is_complete:
                break
            answer.feed(await self._stream.read(self._timeout_s))
        self.is_reusable = answer.keeps_alive

    def close(self) -> None:
        self._stream.close()

    def abandon(self) -> None:
        self._stream.abandon()


class _AsyncHttpxConnections:
    def __init__(self, target: Target, client: httpx.AsyncClient | None = None) -> None:
        self._target = target
        self._is_owned = client is None
        self._client = client or httpx.AsyncClient(
            timeout=target.timeout_s, verify=target.ssl_context or True, cookies=no_cookies()
        )

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    async def send(self, request: HttpRequest) -> HttpResponse:
        return response_of(await self._client.request(**httpx_arguments(self._target, request)))

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[Streamed[AsyncIterator[bytes]]]:
        async with self._client.stream(**httpx_arguments(self._target, request)) as response:
            yield Streamed(response.status_code, response.headers, response.aiter_raw())

    async def close(self) -> None:
        if self._is_owned:
            await self._client.aclose()

    def abandon(self) -> None:
        """Do nothing: httpx closes connections only in their loop; the garbage collector closes their sockets."""
