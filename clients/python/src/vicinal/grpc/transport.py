"""The gRPC transports, blocking and async."""

from __future__ import annotations

import os
import re
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

import grpc
import grpc.aio

from ..async_transport import drive as drive_async
from ..clusters import POSITION, Consistency, Session
from ..errors import (
    REASON,
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
from ..forks import renew_after_fork
from ..loops import PerLoop
from ..operation import Operation
from ..point_operations import Delete
from ..snapshots import SnapshotInfo
from ..target import Tls, authorization_of
from ..transport import drive
from .codec import GrpcCall, call_of

Result = TypeVar("Result")


class Message(NamedTuple):
    """An answer with its trailing metadata."""

    data: bytes
    trailer: Mapping[str, str]


Answer: TypeAlias = Message | VicinalError
"""An answer of the service: a message or an error."""

_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # Otherwise channels to the same address share a connection, and that of a forked process would find its parent's.
    ("grpc.use_local_subchannel_pool", 1),
]
_IS_STOPPING = "the server is shutting down"
"""
A message of the service with UNAVAILABLE to which it adds no reason. All other messages without one are grpcio's, about
the connection, except those of a cluster node, whose answers have a position.
"""
_NO_TRAILER: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class _Opened:
    """A channel, and its methods by name."""

    channel: Any
    methods: dict[str, Callable[..., Any]] = field(default_factory=dict)


class GrpcTransport:
    """
    A blocking transport. Threads may share it. After a fork it opens another channel: grpcio prepares a channel for a
    fork, but not if a call is running in another thread.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        timeout_s: float,
        session: Session | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._address, self._credentials = _target_of(url, tls or Tls())
        self._key = _key_of(api_key)
        self._session = session or Session()
        self._timeout_s = timeout_s
        self._opened: _Opened | None = None
        self._of_parent: list[object] = []
        self._is_closed = False
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Keep the parent's channel, but do not use it: closing it could end the parent's connection."""
        self._of_parent.append(self._opened)
        self._opened = None
        self._lock = threading.Lock()

    def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Run an operation."""
        return drive(self.steps(operation, retry), self.send)

    def steps(self, operation: Operation[Result], retry: Retry) -> Steps[GrpcCall[Any], Answer, Result]:
        """Return the steps of an operation, which `send` takes at this node or at another one."""
        return _steps_of(operation, self._session, retry)

    def download(self, path: str, target: Path, retry: Retry, consistency: Consistency | None) -> SnapshotInfo:
        """Refuse: gRPC has no snapshots."""
        raise UnsupportedError("snapshots are not offered over gRPC: use HTTP")

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._is_closed = True
            if self._opened is not None:
                self._opened.channel.close()

    def send(self, call: GrpcCall[Any]) -> Answer | Unanswered:
        """Send a request once."""
        opened = self._opened or self._open()
        method = opened.methods.get(call.method)
        if method is None:
            # Cached, because creating a method takes a twentieth of the time of a call.
            method = opened.methods[call.method] = opened.channel.unary_unary(call.method).with_call
        try:
            metadata = (*self._key, *call.metadata, *self._session.headers.items())
            data, answered = method(call.message, metadata=metadata, timeout=self._timeout_s)
            return _answer(data, answered.trailing_metadata(), self._session)
        except grpc.RpcError as error:
            return _failure(error, self._address, self._session)
        except ValueError as error:
            raise ClosedError("the client is closed") from error

    def _open(self) -> _Opened:
        with self._lock:
            if self._is_closed:
                raise ClosedError("the client is closed")
            if self._opened is None:
                self._opened = _Opened(_channel(grpc, self._address, self._credentials))
            return self._opened


class AsyncGrpcTransport:
    """
    An async transport. Each event loop has its own channel. The thread of grpcio that serves all of them does not exist
    after a fork, so a child process is refused instead of waiting for ever.
    """

    _process: ClassVar[int | None] = None
    """The process that has started the thread."""

    def __init__(
        self,
        url: str,
        api_key: str | None,
        timeout_s: float,
        session: Session | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._address, self._credentials = _target_of(url, tls or Tls())
        self._key = _key_of(api_key)
        self._session = session or Session()
        self._timeout_s = timeout_s
        self._is_closed = False
        # An abandoned channel is closed when it is deleted.
        self._opened = PerLoop(self._open, lambda opened: None)

    async def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Run an operation."""
        return await drive_async(self.steps(operation, retry), self.send)

    def steps(self, operation: Operation[Result], retry: Retry) -> Steps[GrpcCall[Any], Answer, Result]:
        """Return the steps of an operation, which `send` takes at this node or at another one."""
        return _steps_of(operation, self._session, retry)

    async def download(self, path: str, target: Path, retry: Retry, consistency: Consistency | None) -> SnapshotInfo:
        """Refuse: gRPC has no snapshots."""
        raise UnsupportedError("snapshots are not offered over gRPC: use HTTP")

    async def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
        await self._opened.close(lambda opened: opened.channel.close())

    async def send(self, call: GrpcCall[Any]) -> Answer | Unanswered:
        """Send a request once."""
        if self._is_closed:
            raise ClosedError("the client is closed")
        opened = self._opened.value()
        method = opened.methods.get(call.method)
        if method is None:
            method = opened.methods[call.method] = opened.channel.unary_unary(call.method)
        try:
            metadata = (*self._key, *call.metadata, *self._session.headers.items())
            running = method(call.message, metadata=metadata, timeout=self._timeout_s)
            return _answer(await running, await running.trailing_metadata(), self._session)
        except grpc.RpcError as error:
            return _failure(error, self._address, self._session)

    def _open(self) -> _Opened:
        process = AsyncGrpcTransport._process
        if process is not None and process != os.getpid():
            raise UnsupportedError(
                "async gRPC was used before this process was forked, and does not work after that: "
                "use HTTP, or call the service only in the forked processes"
            )
        AsyncGrpcTransport._process = os.getpid()
        return _Opened(_channel(grpc.aio, self._address, self._credentials))


def _steps_of(operation: Operation[Result], session: Session, retry: Retry) -> Steps[GrpcCall[Any], Answer, Result]:
    call = call_of(operation)
    asked = session.asked(operation.consistency)
    if asked:
        call = replace(call, metadata=(*call.metadata, *asked.items()))
    return exchange(
        call,
        _reader_of(operation, call),
        repeatable=operation.repeatable,
        retry=retry,
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


def _target_of(url: str, tls: Tls) -> tuple[str, grpc.ChannelCredentials | None]:
    parts = urlsplit(url)
    if re.fullmatch(r".+:\d+", parts.netloc) is None or parts.path not in ("", "/"):
        raise InvalidArgumentError(f"{url} is not an address like grpc://localhost:50051")
    if parts.scheme != "grpcs":
        return parts.netloc, None
    files = (tls.ca_file, tls.key_file, tls.cert_file)
    return parts.netloc, grpc.ssl_channel_credentials(
        *(None if file is None else Path(file).read_bytes() for file in files)
    )


def _channel(kind: Any, address: str, credentials: grpc.ChannelCredentials | None) -> Any:
    """Return a blocking channel for `grpc`, or an async one for `grpc.aio`."""
    if credentials is None:
        return kind.insecure_channel(address, _OPTIONS)
    return kind.secure_channel(address, credentials, _OPTIONS)


def _key_of(api_key: str | None) -> Sequence[tuple[str, str]]:
    return tuple(authorization_of(api_key).items())


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
    reason = trailer.get(REASON)
    is_of_service = position is not None or reason is not None or words == _IS_STOPPING
    if code is grpc.StatusCode.UNAVAILABLE and not is_of_service:
        is_in_doubt = not words.startswith("failed to connect")
        return Unanswered(ConnectionFailedError(f"no gRPC service answers at {address}: {words}"), is_in_doubt)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unanswered(DeadlineExceededError(words), is_in_doubt=True)
    retry_after = None if retry_after_ms is None else float(retry_after_ms) / 1000
    return error_of_code(code.value[0], words, retry_after, reason)


def _parts_of(error: Any) -> tuple[grpc.StatusCode, str, Mapping[str, str]]:
    # In grpcio, the failed call itself is the error; the class `RpcError` has none of these methods.
    return error.code(), error.details() or "", dict(error.trailing_metadata() or ())
