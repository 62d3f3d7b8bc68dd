"""The gRPC transports, blocking and async."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

import grpc
import grpc.aio

from ..async_transport import drive as drive_async
from ..clusters import PARTIAL, POSITION, Consistency, Session, missing_of
from ..errors import (
    ClosedError,
    ConnectionFailedError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
    VicinalError,
    error_of_code,
)
from ..exchange import Retry, Steps, Unanswered, exchange
from ..operation import Operation
from ..point_operations import Delete
from ..snapshots import SnapshotInfo
from ..transport import drive
from .codec import GrpcCall, call_of

Result = TypeVar("Result")


class Message(NamedTuple):
    """An answer with its trailing metadata."""

    data: bytes
    trailer: Mapping[str, str]


Answer: TypeAlias = Message | VicinalError
"""An answer of the service: a message or an error."""

_OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
_REFUSALS = ("the server is shutting down", "the stored points are still loading", "the disk failed")
"""
The beginnings of the service's own messages with UNAVAILABLE. All other messages are grpcio's, about the connection,
except those of a cluster node, whose answers have a position.
"""
_NO_TRAILER: Mapping[str, str] = {}


class GrpcTransport:
    """A blocking transport. Threads may share it."""

    def __init__(self, url: str, api_key: str | None, timeout_s: float, consistency: Consistency | None = None) -> None:
        address, credentials = _target_of(url)
        self._address = address
        self._key = _key_of(api_key)
        self._session = Session(consistency)
        self._timeout_s = timeout_s
        self._methods: dict[str, Callable[..., Any]] = {}
        self._channel = (
            grpc.insecure_channel(address, _OPTIONS)
            if credentials is None
            else grpc.secure_channel(address, credentials, _OPTIONS)
        )

    def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Run an operation."""
        return drive(_steps_of(operation, self._session, retry), self._send)

    def download(self, path: str, target: Path, retry: Retry, consistency: Consistency | None) -> SnapshotInfo:
        """Refuse: gRPC has no snapshots."""
        raise UnsupportedError("snapshots are not offered over gRPC: use HTTP")

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def _send(self, call: GrpcCall[Any]) -> Answer | Unanswered:
        method = self._methods.get(call.method)
        if method is None:
            # Cached, because creating a method takes a twentieth of the time of a call.
            method = self._methods[call.method] = self._channel.unary_unary(call.method).with_call
        try:
            metadata = (*self._key, *call.metadata, *self._session.headers.items())
            data, answered = method(call.message, metadata=metadata, timeout=self._timeout_s)
            return _answer(data, answered.trailing_metadata(), self._session)
        except grpc.RpcError as error:
            return _failure(error, self._address, self._session)
        except ValueError as error:
            raise ClosedError("the client is closed") from error


class AsyncGrpcTransport:
    """An async transport for one event loop: the loop of its first call."""

    def __init__(self, url: str, api_key: str | None, timeout_s: float, consistency: Consistency | None = None) -> None:
        self._address, self._credentials = _target_of(url)
        self._key = _key_of(api_key)
        self._session = Session(consistency)
        self._timeout_s = timeout_s
        self._methods: dict[str, Callable[..., Any]] = {}
        self._channel: grpc.aio.Channel | None = None
        self._closed = False

    async def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Run an operation."""
        return await drive_async(_steps_of(operation, self._session, retry), self._send)

    async def download(self, path: str, target: Path, retry: Retry, consistency: Consistency | None) -> SnapshotInfo:
        """Refuse: gRPC has no snapshots."""
        raise UnsupportedError("snapshots are not offered over gRPC: use HTTP")

    async def close(self) -> None:
        """Close the connection."""
        self._closed = True
        if self._channel is not None:
            await self._channel.close()

    async def _send(self, call: GrpcCall[Any]) -> Answer | Unanswered:
        channel = self._opened()
        method = self._methods.get(call.method)
        if method is None:
            method = self._methods[call.method] = channel.unary_unary(call.method)
        try:
            metadata = (*self._key, *call.metadata, *self._session.headers.items())
            running = method(call.message, metadata=metadata, timeout=self._timeout_s)
            return _answer(await running, await running.trailing_metadata(), self._session)
        except grpc.RpcError as error:
            return _failure(error, self._address, self._session)

    def _opened(self) -> grpc.aio.Channel:
        if self._closed:
            raise ClosedError("the client is closed")
        if self._channel is None:
            # A channel belongs to the running loop, and a client may be created before there is one.
            self._channel = (
                grpc.aio.insecure_channel(self._address, _OPTIONS)
                if self._credentials is None
                else grpc.aio.secure_channel(self._address, self._credentials, _OPTIONS)
            )
        return self._channel


def _steps_of(operation: Operation[Result], session: Session, retry: Retry) -> Steps[GrpcCall[Any], Answer, Result]:
    call = call_of(operation)
    asked = session.asked(operation.consistency, operation.on_partial, operation.partial_after_s)
    if asked:
        call = replace(call, metadata=(*call.metadata, *asked.items()))
    return exchange(
        call,
        _reader_of(operation, call),
        repeatable=operation.repeatable,
        retry=retry,
        tell=_teller_of(operation),
    )


def _reader_of(operation: Operation[Result], call: GrpcCall[Result]) -> Callable[[Answer], Result]:
    def read(answer: Answer) -> Result:
        if isinstance(answer, NotFoundError) and isinstance(operation, Delete):
            # Deleting a missing point succeeds, as over HTTP.
            answer = Message(b"", {})
        if isinstance(answer, VicinalError):
            raise answer
        try:
            return call.read(answer.data)
        except (KeyError, ValueError, IndexError, TypeError, struct.error) as error:
            raise InternalError(f"the answer is not what Vicinal answers: {error!r}") from error

    return read


def _teller_of(operation: Operation[object]) -> Callable[[Answer], None] | None:
    on_partial = operation.on_partial
    if on_partial is None:
        return None

    def tell(answer: Answer) -> None:
        missing = missing_of(answer.trailer.get(PARTIAL)) if isinstance(answer, Message) else None
        if missing is not None:
            on_partial(missing)

    return tell


def _target_of(url: str) -> tuple[str, grpc.ChannelCredentials | None]:
    parts = urlsplit(url)
    if re.fullmatch(r".+:\d+", parts.netloc) is None or parts.path not in ("", "/"):
        raise InvalidArgumentError(f"{url} is not an address like grpc://localhost:50051")
    return parts.netloc, grpc.ssl_channel_credentials() if parts.scheme == "grpcs" else None


def _key_of(api_key: str | None) -> Sequence[tuple[str, str]]:
    return () if api_key is None else (("authorization", api_key),)


def _answer(data: bytes, sent: Iterable[tuple[str, str]] | None, session: Session) -> Message:
    """Return an answer, and record its position in the cluster's log."""
    if not sent:
        return Message(data, _NO_TRAILER)
    trailer = dict(sent)
    session.note(trailer.get(POSITION))
    return Message(data, trailer)


def _failure(error: grpc.RpcError, address: str, session: Session) -> VicinalError | Unanswered:
    """Return the meaning of a failure of grpcio: an error of the service, or of the connection."""
    code, words, trailer = _parts_of(error)
    position, retry_after_ms = trailer.get(POSITION), trailer.get("retry-after-ms")
    session.note(position)
    if code is grpc.StatusCode.UNAVAILABLE and position is None and not words.startswith(_REFUSALS):
        is_in_doubt = not words.startswith("failed to connect")
        return Unanswered(ConnectionFailedError(f"no gRPC service answers at {address}: {words}"), is_in_doubt)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unanswered(DeadlineExceededError(words), is_in_doubt=True)
    return error_of_code(code.value[0], words, None if retry_after_ms is None else float(retry_after_ms) / 1000)


def _parts_of(error: Any) -> tuple[grpc.StatusCode, str, Mapping[str, str]]:
    # In grpcio, the failed call itself is the error; the class `RpcError` has none of these methods.
    return error.code(), error.details() or "", dict(error.trailing_metadata() or ())
