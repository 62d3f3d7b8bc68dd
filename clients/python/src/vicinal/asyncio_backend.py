"""
Connections of httpcore on asyncio alone, without TLS. httpcore's own go by anyio, which serves other event loops too:
with it a search call takes a quarter longer.
"""

# ruff: noqa: ASYNC109  the timeouts are parameters of httpcore's interface

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any, cast

import httpcore

_READ_AHEAD_BYTES = 256 * 1024
"""What is received before it is asked for: beyond it the service has to wait."""


class AsyncioBackend(httpcore.AsyncNetworkBackend):
    """Connects by TCP, in the running event loop of asyncio."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                _, stream = await asyncio.get_running_loop().create_connection(_AsyncioStream, host, port)
                return stream
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error


class _AsyncioStream(asyncio.Protocol, httpcore.AsyncNetworkStream):
    # Not asyncio's own streams: an idle one cannot be asked whether something has come.
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._has_ended = False
        self._failure: Exception | None = None
        self._can_write = True
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connection = cast(socket.socket, transport.get_extra_info("socket"))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > _READ_AHEAD_BYTES:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._has_ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended = True
        self._failure = exc
        self._wake()

    def pause_writing(self) -> None:
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._wake()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        while not self._received and not self._has_ended:
            await self._wait(timeout, httpcore.ReadTimeout)
        if not self._received and self._failure is not None:
            raise httpcore.ReadError(str(self._failure)) from self._failure
        data = bytes(self._received[:max_bytes])
        del self._received[:max_bytes]
        self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._has_ended:
            raise httpcore.WriteError("the service closed the connection")
        self._transport.write(buffer)
        while not self._can_write and not self._has_ended:
            await self._wait(timeout, httpcore.WriteTimeout)

    async def aclose(self) -> None:
        # What the service has not taken yet belongs to a request that was given up.
        self._transport.abort()
        # The socket is closed in the next turn of the loop, which may be the last one.
        await asyncio.sleep(0)

    def get_extra_info(self, info: str) -> Any:
        # An idle connection on which something has come is one that the service has closed.
        return self._has_ended or len(self._received) > 0 if info == "is_readable" else None

    async def _wait(self, timeout: float | None, expired: type[httpcore.TimeoutException]) -> None:
        """Wait until something has happened. httpcore reads and writes in turns, so there is one waiter at most."""
        waiter = self._waiter = self._loop.create_future()
        timer = None if timeout is None else self._loop.call_later(timeout, self._expire, waiter, expired)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    @staticmethod
    def _expire(waiter: asyncio.Future[None], expired: type[httpcore.TimeoutException]) -> None:
        if not waiter.done():
            waiter.set_exception(expired("no answer in time"))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
