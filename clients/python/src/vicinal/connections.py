"""
How the blocking client reaches a service over HTTP: by httpcore itself, or by httpx.

httpx calls httpcore as well, and what it adds (addresses, cookies, redirects, authentication) takes longer than the
rest of a search call. It is used where it is needed: for the caller's own client, a proxy of the environment, or a
password in the address.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import httpcore
import httpx

from .http_codec import httpx_arguments, response_of
from .operation import HttpRequest, HttpResponse
from .target import POOL_LIMITS, Streamed, Target, headers_of_answer, needs_httpx


class Connections(Protocol):
    """What the blocking transport needs of a library."""

    @property
    def is_closed(self) -> bool:
        """Whether requests can no longer be sent."""

    def send(self, request: HttpRequest) -> HttpResponse:
        """Return the whole answer."""

    def stream(self, request: HttpRequest) -> AbstractContextManager[Streamed[Iterator[bytes]]]:
        """Return the answer as soon as its head is there."""

    def close(self) -> None:
        """Close the connections, unless they are the caller's."""


def connections_to(target: Target, client: httpx.Client | None) -> Connections:
    """Return the connections that the client uses. Threads may share them."""
    if client is None and not needs_httpx(target.url):
        return _PoolConnections(target)
    return _HttpxConnections(target, client)


class _PoolConnections:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._pool = httpcore.ConnectionPool(ssl_context=target.ssl_context(), **POOL_LIMITS)
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def send(self, request: HttpRequest) -> HttpResponse:
        response = self._pool.request(**self._target.arguments(request))
        return HttpResponse(response.status, headers_of_answer(response.headers), response.content)

    @contextmanager
    def stream(self, request: HttpRequest) -> Iterator[Streamed[Iterator[bytes]]]:
        with self._pool.stream(**self._target.arguments(request)) as response:
            yield Streamed(response.status, headers_of_answer(response.headers), response.iter_stream())

    def close(self) -> None:
        self._is_closed = True
        self._pool.close()


class _HttpxConnections:
    def __init__(self, target: Target, client: httpx.Client | None) -> None:
        self._target = target
        self._is_owned = client is None
        self._client = client or httpx.Client(timeout=target.timeout_s)

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    def send(self, request: HttpRequest) -> HttpResponse:
        return response_of(self._client.request(**httpx_arguments(self._target, request)))

    @contextmanager
    def stream(self, request: HttpRequest) -> Iterator[Streamed[Iterator[bytes]]]:
        with self._client.stream(**httpx_arguments(self._target, request)) as response:
            yield Streamed(response.status_code, response.headers, response.iter_raw())

    def close(self) -> None:
        if self._is_owned:
            self._client.close()
