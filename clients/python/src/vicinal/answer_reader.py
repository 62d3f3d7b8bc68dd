"""Reads an answer of HTTP/1.1 from the parts in which it arrives."""

from __future__ import annotations

import httpcore
import httptools

_HEAD_BYTES_MAX = 100 * 1024
"""More than any service or proxy sends; bounds the memory for a peer that does not speak HTTP."""


class AnswerReader:
    """
    The answer to one request. Raises a `ProtocolError` of httpcore for anything that is not an answer.

    `headers` has its names in lower case. `keeps_alive` is true if the connection may carry another request.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.has_head = False
        self.is_complete = False
        self.keeps_alive = False
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._head_bytes = 0

    def feed(self, part: bytes) -> None:
        """Read a part; an empty part means that the connection has ended."""
        if part == b"":
            self._end()
            return
        try:
            self._parser.feed_data(part)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # Bytes after a complete answer do not belong to it.
            self.keeps_alive = False
            if not self.is_complete:
                raise httpcore.RemoteProtocolError(f"this is not an HTTP answer: {error}") from error
        if not self.has_head:
            self._head_bytes += len(part)
            if self._head_bytes > _HEAD_BYTES_MAX:
                raise httpcore.RemoteProtocolError(f"the answer's head is longer than {_HEAD_BYTES_MAX} bytes")

    def take_body(self) -> list[bytes]:
        """Return the part of the body that has arrived since the last call."""
        body, self._body = self._body, []
        return body

    def _end(self) -> None:
        is_delimited = "content-length" in self.headers or "transfer-encoding" in self.headers
        if not self.has_head or is_delimited:
            raise httpcore.RemoteProtocolError("the connection ended before the answer did")
        self.is_complete = True

    # The parser calls the following methods.

    def on_message_begin(self) -> None:
        self.keeps_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        # Fields after the head are trailers, which Vicinal does not send.
        if not self.has_head:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self.is_complete:
            return
        self.status = self._parser.get_status_code()
        if self._is_final:
            self.has_head = True
        else:
            self.headers.clear()

    def on_body(self, body: bytes) -> None:
        if not self.is_complete:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._is_final and not self.is_complete:
            self.is_complete = True
            self.keeps_alive = self._parser.should_keep_alive()

    @property
    def _is_final(self) -> bool:
        """Whether this is the final answer, and not an interim one, like 103."""
        return self.status >= 200
