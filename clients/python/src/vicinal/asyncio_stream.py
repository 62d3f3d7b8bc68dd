"""Connections over TCP and TLS that use only asyncio, with the exceptions of httpcore."""

# ruff: noqa: ASYNC109  the timeouts are parameters, as in httpcore's blocking streams

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import cast

import httpcore

_READ_AHEAD_BYTES = 256 * 1024
"""Maximum bytes that are received ahead of a read; beyond it, the service must wait."""


async def connect(host: str, port: int, ssl_context: ssl.SSLContext | None, timeout: float) -> AsyncioStream:
    """Connect to a service, in the running event loop."""
    try:
        async with asyncio.timeout(timeout):
            loop = asyncio.get_running_loop()
            _, stream = await loop.create_connection(AsyncioStream, host, port, ssl=ssl_context)
            return stream
    except TimeoutError as error:
        raise httpcore.ConnectTimeout(str(error)) from error
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from error


class AsyncioStream(asyncio.Protocol):
    """
    A connection. Not a stream of asyncio: an idle one cannot tell whether data has arrived.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._is_paused = False
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
            self._is_paused = True
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

    async def read(self, timeout: float) -> bytes:
        """Wait for data and return it; return empty bytes at the end."""
        while not self._received and not self._has_ended:
            await self._wait(timeout, httpcore.ReadTimeout)
        if not self._received and self._failure is not None:
            raise httpcore.ReadError(str(self._failure)) from self._failure
        data = bytes(self._received)
        self._received.clear()
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes, timeout: float) -> None:
        """Send data; wait while the service does not read."""
        if self._has_ended:
            raise httpcore.WriteError("the service closed the connection")
        self._transport.write(data)
        while not self._can_write and not self._has_ended:
            await self._wait(timeout, httpcore.WriteTimeout)

    def close(self) -> None:
        """Close the connection. Discards unsent data, which belongs to a cancelled request."""
        self._transport.abort()

    def abandon(self) -> None:
        """
        End the connection where the transport cannot be closed: its loop has ended, or runs in another thread. The
        garbage collector closes the socket.
        """
        connection = cast(socket.socket, self._transport.get_extra_info("socket"))
        with suppress(OSError):
            # The service may have ended the connection already.
            connection.shutdown(socket.SHUT_RDWR)

    @property
    def is_readable(self) -> bool:
        """Whether data has arrived, or the connection has ended."""
        return self._has_ended or len(self._received) > 0

    async def _wait(self, timeout: float, expired: type[httpcore.TimeoutException]) -> None:
        """Wait for an event. There is at most one waiter, because an answer is only read after its request is sent."""
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_later(timeout, self._expire, waiter, expired)
        try:
            await waiter
        finally:
            self._waiter = None
            timer.cancel()

    @staticmethod
    def _expire(waiter: asyncio.Future[None], expired: type[httpcore.TimeoutException]) -> None:
        if not waiter.done():
            waiter.set_exception(expired("no answer in time"))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
