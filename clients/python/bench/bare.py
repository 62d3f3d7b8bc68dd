"""
Sends the bytes of a search on an open connection and reads the answer, with no client around it: the minimum time for
any client. Blocking, one write per request.
"""

from __future__ import annotations

import socket
import struct
from typing import Protocol
from urllib.parse import urlsplit

from vicinal.grpc.codec import call_of
from vicinal.operation import Place
from vicinal.search_operations import Search
from vicinal.target import Target

_READ_BYTES = 64 * 1024
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GO_AWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_WINDOW_GROWTH = 2**31 - 2**16
"""One window update for the whole connection, so that the service never waits for the window."""


class BareSearch(Protocol):
    """A connection that sends prepared searches."""

    def prepare(self, search: Search) -> bytes:
        """Return the bytes of a search. This is not measured."""

    def send(self, prepared: bytes) -> None:
        """Send a search and wait for its answer."""

    def close(self) -> None:
        """Close the connection."""


def bare_search(url: str, api_key: str, place: Place) -> BareSearch:
    """Return a connection to a service."""
    kind = _BareGrpc if url.startswith("grpc://") else _BareHttp
    return kind(url, api_key, place)


class _BareHttp:
    def __init__(self, url: str, api_key: str, place: Place) -> None:
        self._target = Target(url, {"authorization": api_key}, timeout_s=60)
        self._socket = _connected(url)

    def prepare(self, search: Search) -> bytes:
        return b"".join(self._target.parts_of(search.request()))

    def send(self, prepared: bytes) -> None:
        self._socket.sendall(prepared)
        answer = _more(self._socket)
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += _more(self._socket)
        head = answer[:end].lower()
        assert head.startswith(b"http/1.1 200"), answer
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        while len(answer) < end + 4 + length:
            answer += _more(self._socket)

    def close(self) -> None:
        self._socket.close()


class _BareGrpc:
    """HTTP/2 with uncompressed heads."""

    def __init__(self, url: str, api_key: str, place: Place) -> None:
        path = call_of(Search(place, "", "Cosine")).method
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", urlsplit(url).netloc)]
        fields += [("te", "trailers"), ("content-type", "application/grpc"), ("authorization", api_key)]
        fields += [("collection", place.collection)] if place.collection is not None else []
        self._head = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)
        self._socket = _connected(url)
        self._received = b""
        self._stream = -1
        growth = _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW_GROWTH))
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + growth)

    def prepare(self, search: Search) -> bytes:
        message = call_of(search).message
        return struct.pack(">BI", 0, len(message)) + message

    def send(self, prepared: bytes) -> None:
        self._stream += 2
        head = _frame(_HEADERS, _END_HEADERS, self._stream, self._head)
        self._socket.sendall(head + _frame(_DATA, _END_STREAM, self._stream, prepared))
        answer = b""
        while True:
            kind, flags, stream, content = self._next_frame()
            assert kind not in (_RESET, _GO_AWAY), content
            if kind in (_SETTINGS, _PING) and not flags & _ACK:
                self._socket.sendall(_frame(kind, _ACK, 0, content if kind == _PING else b""))
            if stream == self._stream and kind == _DATA:
                answer += content
            if stream == self._stream and kind in (_DATA, _HEADERS) and flags & _END_STREAM:
                assert answer != b"", "the service refused the search"
                return

    def close(self) -> None:
        self._socket.close()

    def _next_frame(self) -> tuple[int, int, int, bytes]:
        while len(self._received) < 9 or len(self._received) < 9 + int.from_bytes(self._received[:3], "big"):
            self._received += _more(self._socket)
        end = 9 + int.from_bytes(self._received[:3], "big")
        kind, flags, stream = struct.unpack_from(">BBI", self._received, 3)
        content, self._received = self._received[9:end], self._received[end:]
        return kind, flags, stream, content


def _connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(_READ_BYTES)
    assert received != b"", "the service closed the connection"
    return received


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + content


def _text(value: str) -> bytes:
    """Return a string of HPACK whose length fits one byte."""
    assert len(value) < 127
    return bytes([len(value)]) + value.encode("ascii")
