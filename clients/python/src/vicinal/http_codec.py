"""How the service's HTTP answers are read, and what failures mean: what both HTTP transports share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypedDict, TypeVar

import httpcore
import httpx

from .clusters import PARTIAL, Session, missing_of
from .errors import (
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
from .target import Streamed, Target

Result = TypeVar("Result")

NETWORK_ERRORS = (
    httpx.TransportError,
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
)
"""What httpcore and httpx raise when there is no answer."""


def reader_of(operation: Operation[Result]) -> Callable[[HttpResponse], Result]:
    """Return what reads the operation's response, or raises the error that it is."""

    def read(response: HttpResponse) -> Result:
        if not 200 <= response.status < 300:
            raise error_of(response)
        # This client knows all its fields, so a service that ignores one is older, and did less than was asked.
        ignored = response.headers.get("vicinal-ignored-fields")
        if ignored is not None:
            raise UnsupportedError(f"the service is older than this client and ignored: {ignored}")
        try:
            return operation.answer(response)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InternalError(f"the answer is not what Vicinal answers: {error!r}") from error

    return read


def request_of(operation: Operation[object], session: Session) -> HttpRequest:
    """Return an operation's request, with what it asks of a cluster."""
    asked = session.asked(operation.consistency, operation.on_partial, operation.partial_after_s)
    return with_headers(operation.request(), asked)


def with_headers(request: HttpRequest, headers: Mapping[str, str]) -> HttpRequest:
    """Return a request with more headers."""
    if not headers:
        return request
    return HttpRequest(request.method, request.path, request.body, {**(request.headers or {}), **headers})


def teller_of(operation: Operation[object]) -> Callable[[HttpResponse], None] | None:
    """Return what tells the caller that a response is partial, if that is allowed."""
    on_partial = operation.on_partial
    if on_partial is None:
        return None

    def tell(response: HttpResponse) -> None:
        missing = missing_of(response.headers.get(PARTIAL))
        if missing is not None:
            on_partial(missing)

    return tell


def error_of(response: HttpResponse) -> VicinalError:
    """Return the error that a response is."""
    text = response.body.decode(errors="replace")
    if response.headers.get("content-type", "").startswith("text/html"):
        title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        text = f"a proxy in front of the service answered: {title[1] if title else response.status}"
    return error_of_status(response.status, text, _seconds_of(response.headers.get("retry-after")))


def refused(response: Streamed[object], body: bytes) -> Unanswered:
    """Return what became of a request whose answer is an error."""
    return Unanswered(error_of(HttpResponse(response.status, response.headers, body)), is_in_doubt=False)


def response_of(response: httpx.Response) -> HttpResponse:
    """Return a response that was read."""
    return HttpResponse(response.status_code, response.headers, response.content)


class _HttpxArguments(TypedDict):
    method: str
    url: str
    content: bytes | None
    headers: dict[str, str]


def httpx_arguments(target: Target, request: HttpRequest) -> _HttpxArguments:
    """Return a request as httpx takes it."""
    kind = {} if request.body is None else {"content-type": "application/json"}
    return {
        "method": request.method,
        "url": target.url + request.path,
        "content": request.body,
        "headers": {**target.headers, **kind, **(request.headers or {})},
    }


def unanswered(error: Exception, url: str) -> Unanswered:
    """Return what one of the `NETWORK_ERRORS` means."""
    words = str(error) or type(error).__name__
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpcore.ConnectError() | httpcore.ConnectTimeout():
            return Unanswered(ConnectionFailedError(f"no HTTP service answers at {url}: {words}"), is_in_doubt=False)
        case httpx.PoolTimeout() | httpcore.PoolTimeout():
            return Unanswered(DeadlineExceededError("no connection became free in time"), is_in_doubt=False)
        case httpx.TimeoutException() | httpcore.TimeoutException():
            return Unanswered(DeadlineExceededError(f"{url} did not answer in time"), is_in_doubt=True)
    return Unanswered(ConnectionFailedError(f"the connection to {url} broke: {words}"), is_in_doubt=True)


def base_of(url: str) -> str:
    """Return what the addresses of requests begin with, or refuse what is no address."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidArgumentError(f"{url!r} is not an address: {error}") from error
    if parsed.scheme not in ("http", "https") or parsed.host == "":
        raise InvalidArgumentError(f"{url!r} is not an address like http://127.0.0.1:3000 or grpc://localhost:50051")
    return url.rstrip("/")


def headers_of(api_key: str | None, headers: Mapping[str, str] | None, version: str) -> dict[str, str]:
    """Return what every request carries."""
    authorization = {} if api_key is None else {"authorization": api_key}
    return {"user-agent": f"vicinal-python/{version}", **authorization, **(headers or {})}


def _seconds_of(retry_after: str | None) -> float | None:
    """Return the seconds of a Retry-After. Vicinal sends seconds; a proxy may send a date, which is not waited for."""
    return float(retry_after) if retry_after is not None and re.fullmatch(r"\d+", retry_after) else None
