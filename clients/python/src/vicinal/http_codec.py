"""What both HTTP transports share: reading the service's answers, and interpreting failures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypedDict, TypeVar

import httpcore
import httpx

from .clusters import Session
from .errors import (
    REASON,
    ConnectionFailedError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    UnsupportedError,
    VicinalError,
    error_of_status,
)
from .exchange import Unanswered
from .operation import HttpRequest, HttpResponse, Operation
from .target import Streamed, Target, authorization_of

Result = TypeVar("Result")

NETWORK_ERRORS = (
    httpx.TransportError,
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
)
"""The exceptions of httpcore and httpx when there is no answer."""


def reader_of(operation: Operation[Result]) -> Callable[[HttpResponse], Result]:
    """Return a function that reads the operation's response, or raises its error."""

    def read(response: HttpResponse) -> Result:
        if not 200 <= response.status < 300:
            raise error_of(response)
        # The service is older than `vicinal-strict`. It ignored a field, and did less than requested.
        ignored = response.headers.get("vicinal-ignored-fields")
        if ignored is not None:
            raise UnsupportedError(f"the service is older than this client and ignored: {ignored}")
        try:
            return operation.answer(response)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InternalError(f"the answer is not what Vicinal answers: {error!r}") from error

    return read


def request_of(operation: Operation[object], session: Session) -> HttpRequest:
    """Return an operation's request, with the headers for a cluster."""
    asked = session.asked(operation.consistency)
    return with_headers(operation.request(), asked)


def with_headers(request: HttpRequest, headers: Mapping[str, str]) -> HttpRequest:
    """Return a request with more headers."""
    if not headers:
        return request
    return HttpRequest(request.method, request.path, request.body, {**(request.headers or {}), **headers})


def error_of(response: HttpResponse) -> VicinalError:
    """Return the error in a response."""
    text = response.body.decode(errors="replace")
    if response.headers.get("content-type", "").startswith("text/html"):
        title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        text = f"a proxy in front of the service answered: {title[1] if title else response.status}"
    headers = response.headers
    return error_of_status(response.status, text, _seconds_of(headers.get("retry-after")), headers.get(REASON))


def refused(response: Streamed[object], body: bytes) -> Unanswered:
    """Return the outcome of a request whose answer is an error."""
    return Unanswered(error_of(HttpResponse(response.status, response.headers, body)), is_in_doubt=False)


def response_of(response: httpx.Response) -> HttpResponse:
    """Convert a complete response of httpx."""
    return HttpResponse(response.status_code, response.headers, response.content)


class _HttpxArguments(TypedDict):
    method: str
    url: str
    content: bytes | None
    headers: dict[str, str]


def httpx_arguments(target: Target, request: HttpRequest) -> _HttpxArguments:
    """Return the arguments of httpx for a request."""
    kind = {} if request.body is None else {"content-type": "application/json"}
    return {
        "method": request.method,
        "url": target.url + request.path,
        "content": request.body,
        "headers": {**target.headers, **kind, **(request.headers or {})},
    }


def unanswered(error: Exception, url: str) -> Unanswered:
    """Return the meaning of one of the `NETWORK_ERRORS`."""
    words = str(error) or type(error).__name__
    # Errors end up in logs, where a password of the address must not be.
    url = str(httpx.URL(url).copy_with(userinfo=b""))
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpcore.ConnectError() | httpcore.ConnectTimeout():
            return Unanswered(ConnectionFailedError(f"no HTTP service answers at {url}: {words}"), is_in_doubt=False)
        case httpx.PoolTimeout() | httpcore.PoolTimeout():
            return Unanswered(DeadlineExceededError("no connection became free in time"), is_in_doubt=False)
        case httpx.TimeoutException() | httpcore.TimeoutException():
            return Unanswered(DeadlineExceededError(f"{url} did not answer in time"), is_in_doubt=True)
    return Unanswered(ConnectionFailedError(f"the connection to {url} failed: {words}"), is_in_doubt=True)


def base_of(url: str) -> str:
    """Return the prefix of all request addresses, or refuse an invalid address."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidArgumentError(f"{url!r} is not an address: {error}") from error
    if parsed.scheme not in ("http", "https") or parsed.host == "":
        raise InvalidArgumentError(f"{url!r} is not an address like http://127.0.0.1:3000 or grpc://localhost:50051")
    return url.rstrip("/")


def headers_of(api_key: str | None, headers: Mapping[str, str] | None, version: str) -> dict[str, str]:
    """Return the headers of every request."""
    # The service refuses unknown fields instead of ignoring them, which could do more than was asked.
    strict = {"vicinal-strict": "true"}
    return {"user-agent": f"vicinal-python/{version}", **strict, **authorization_of(api_key), **(headers or {})}


def _seconds_of(retry_after: str | None) -> float | None:
    """Return the seconds of a Retry-After. Vicinal sends seconds; a proxy may send a date, which is ignored."""
    return float(retry_after) if retry_after is not None and re.fullmatch(r"\d+", retry_after) else None
