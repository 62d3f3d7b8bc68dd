"""
How the async client reaches a service over HTTP: by httpcore itself, or by httpx, for the reasons in `connections.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import httpcore
import httpx

from .asyncio_backend import AsyncioBackend
from .http_codec import httpx_arguments, response_of
from .operation import HttpRequest, HttpResponse
from .target import POOL_LIMITS, Streamed, Target, headers_of_answer, needs_httpx


class AsyncConnections(Protocol):
    """What the async transport needs of a library."""

    @property
    def is_closed(self) -> bool:
        """Whether requests can no longer be sent."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the whole answer."""

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[Streamed[AsyncIterator[bytes]]]:
        """Return the answer as soon as its head is there."""

    async def close(self) -> None:
        """Close the connections, unless they are the caller's."""


def async_connections_to(target: Target, client: httpx.AsyncClient | None) -> AsyncConnections:
    """Return the connections that the client uses, in one event loop."""
    if client is None and not needs_httpx(target.url):
        return _AsyncPoolConnections(target)
    return _AsyncHttpxConnections(target, client)


class _AsyncPoolConnections:
    def __init__(self, target: Target) -> None:
        self._target = target
        ssl_context = target.ssl_context()
        backend = AsyncioBackend() if ssl_context is None else None
        self._pool = httpcore.AsyncConnectionPool(ssl_context=ssl_context, network_backend=backend, **POOL_LIMITS)
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def send(self, request: HttpRequest) -> HttpResponse:
        response = await self._pool.request(**self._target.arguments(request))
        return HttpResponse(response.status, headers_of_answer(response.headers), response.content)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[Streamed[AsyncIterator[bytes]]]:
        async with self._pool.stream(**self._target.arguments(request)) as response:
            yield Streamed(response.status, headers_of_answer(response.headers), response.aiter_stream())

    async def close(self) -> None:
        self._is_closed = True
        await self._pool.aclose()


class _AsyncHttpxConnections:
    def __init__(self, target: Target, client: httpx.AsyncClient | None) -> None:
        self._target = target
        self._is_owned = client is None
        self._client = client or httpx.AsyncClient(timeout=target.timeout_s)

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
