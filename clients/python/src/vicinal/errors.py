"""The errors: one class for each reason, all of them subclasses of `VicinalError`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class VicinalError(Exception):
    """A failed request. `reason` is the service's name for the cause, and the message is its explanation."""

    reason: ClassVar[str] = "internal"
    http_status: ClassVar[int | None] = None
    grpc_code: ClassVar[int | None] = None

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        """Seconds to wait before another try, if the service says so."""


class InvalidArgumentError(VicinalError):
    """The request is malformed: the message names the field, its value and what is allowed."""

    reason = "invalid_argument"
    http_status = 400
    grpc_code = 3


class KeyReusedError(VicinalError):
    """The idempotency key was used before, for other points."""

    reason = "key_reused"
    http_status = 422
    grpc_code = 3


class UnauthenticatedError(VicinalError):
    """The API key is missing or wrong."""

    reason = "unauthenticated"
    http_status = 401
    grpc_code = 16


class PermissionDeniedError(VicinalError):
    """The API key may only read."""

    reason = "permission_denied"
    http_status = 403
    grpc_code = 7


class MisdirectedError(VicinalError):
    """The service does not answer to this host name (`CORS_ORIGINS`)."""

    reason = "misdirected"
    http_status = 421


class NotFoundError(VicinalError):
    """There is no such point."""

    reason = "not_found"
    http_status = 404
    grpc_code = 5


class CollectionNotFoundError(VicinalError):
    """There is no collection or alias with this name."""

    reason = "collection_not_found"


class UnsupportedError(VicinalError):
    """The service or the transport does not support the request: often the service is older than this client."""

    reason = "unsupported"
    http_status = 405
    grpc_code = 12


class AlreadyExistsError(VicinalError):
    """The id or the collection already exists."""

    reason = "already_exists"
    http_status = 409
    grpc_code = 6


class PreconditionFailedError(VicinalError):
    """The point does not meet the condition in `when`."""

    reason = "precondition_failed"
    http_status = 412
    grpc_code = 9


class CursorExpiredError(VicinalError):
    """The hits of a search by words are no longer kept: begin with the first page."""

    reason = "cursor_expired"
    http_status = 410
    grpc_code = 10


class RequestTooLargeError(VicinalError):
    """The request is larger than `MAX_REQUEST_BYTES`."""

    reason = "request_too_large"
    http_status = 413
    grpc_code = 8


class QuotaExceededError(VicinalError):
    """A key or a collection has as many points or bytes as its quota allows. Waiting does not help."""

    reason = "quota_exceeded"
    http_status = 429


class OverloadedError(VicinalError):
    """Too much work is waiting in the service, and all retries failed for the same reason."""

    reason = "overloaded"
    http_status = 429


class NotReadyError(VicinalError):
    """The service is still loading its points or is stopping, or no node of a cluster can answer now."""

    reason = "not_ready"
    http_status = 503
    grpc_code = 14

    @property
    def is_in_doubt(self) -> bool:
        """Whether a change may have taken effect: a cluster did not learn in time whether its log has the change."""
        return _MAY_BE_STORED in self.message


class RerankUnavailableError(VicinalError):
    """The service's reranking endpoint failed, or did not answer in time; `on_error="skip"` goes on without it."""

    reason = "rerank_unavailable"
    http_status = 503
    grpc_code = 14


class StorageFullError(VicinalError):
    """The disk is full, or `MAX_MEMORY_BYTES` is reached. Reads and deletes continue."""

    reason = "storage_full"
    http_status = 507


class DeadlineExceededError(VicinalError):
    """There was no answer in time. A change may have taken effect."""

    reason = "deadline_exceeded"
    http_status = 504
    grpc_code = 4


class ConnectionFailedError(VicinalError):
    """The service could not be reached, or the connection failed. If it failed, a change may have taken effect."""

    reason = "connection_failed"


class InternalError(VicinalError):
    """An internal error of the service, whose log has the details; or an answer that the service did not send."""

    reason = "internal"
    http_status = 500
    grpc_code = 13


class ClosedError(VicinalError):
    """The client was closed."""

    reason = "closed"


_every_class: tuple[type[VicinalError], ...] = (
    KeyReusedError,
    InvalidArgumentError,
    UnauthenticatedError,
    PermissionDeniedError,
    MisdirectedError,
    NotFoundError,
    UnsupportedError,
    AlreadyExistsError,
    PreconditionFailedError,
    CursorExpiredError,
    RequestTooLargeError,
    QuotaExceededError,
    OverloadedError,
    RerankUnavailableError,
    NotReadyError,
    StorageFullError,
    DeadlineExceededError,
    InternalError,
)
_class_of_reason: Mapping[str, type[VicinalError]] = {kind.reason: kind for kind in _every_class} | {
    CollectionNotFoundError.reason: CollectionNotFoundError
}
# If several reasons have the same status or code, the last one counts, which is the general one.
_class_of_status: Mapping[int, type[VicinalError]] = {
    kind.http_status: kind for kind in _every_class if kind.http_status is not None
} | {408: DeadlineExceededError, 502: ConnectionFailedError}
_class_of_code: Mapping[int, type[VicinalError]] = {
    kind.grpc_code: kind for kind in _every_class if kind.grpc_code is not None
}

_KEY_REUSED = "another request was stored under this idempotency key"
_MAY_BE_STORED = "may have been stored"
REASON = "vicinal-reason"
"""The header, or the metadata over gRPC, with the service's name for the cause."""
POINT_NOT_FOUND = "Point not found"
"""The service's text for a missing point. The status is the same for a missing collection."""


def error_of_status(
    status: int, message: str, retry_after: float | None = None, reason: str | None = None
) -> VicinalError:
    """Return the error of an HTTP answer. Without a reason that has a class, the status tells it."""
    named = _class_of_reason.get(reason or "")
    if named is not None:
        return named(message, retry_after=retry_after)
    if status == 404 and message != POINT_NOT_FOUND:
        missing_path = message.startswith("no such path")
        return UnsupportedError(message) if missing_path else CollectionNotFoundError(message)
    default = InvalidArgumentError if 400 <= status < 500 else InternalError
    return _class_of_status.get(status, default)(message, retry_after=retry_after)


def error_of_code(code: int, message: str, retry_after: float | None = None, reason: str | None = None) -> VicinalError:
    """
    Return the error of a gRPC answer. Without a reason that has a class, the code tells it, and `retry_after` marks an
    overload: three reasons share its code.
    """
    named = _class_of_reason.get(reason or "")
    if named is not None:
        return named(message, retry_after=retry_after)
    if retry_after is not None and code == RequestTooLargeError.grpc_code:
        return OverloadedError(message, retry_after=retry_after)
    if code == KeyReusedError.grpc_code and _KEY_REUSED in message:
        return KeyReusedError(message)
    if code == NotFoundError.grpc_code and message != POINT_NOT_FOUND:
        return CollectionNotFoundError(message)
    return _class_of_code.get(code, InternalError)(message, retry_after=retry_after)
