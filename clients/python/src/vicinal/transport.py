"""The blocking transports' interface, and HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import httpx

from .errors import ClosedError
from .exchange import Pause, Retry, Send, Steps, Unanswered, exchange
from .http_codec import base_of, error_of, reader_of, response_of, unanswered
from .operation import HttpRequest, HttpResponse, Operation
from .snapshots import SnapshotFile, SnapshotInfo

Request = TypeVar("Request")
Response = TypeVar("Response")
Result = TypeVar("Result")


class Transport(Protocol):
    """What a blocking client needs of a connection."""

    def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Carry out an operation."""

    def download(self, path: str, target: Path, retry: Retry) -> SnapshotInfo:
        """Write a snapshot to a file."""

    def close(self) -> None:
        """Close the connection."""


def drive(steps: Steps[Request, Response, Result], send: Callable[[Request], Response | Unanswered]) -> Result:
    """Carry out the steps of an exchange."""
    outcome: Response | Unanswered | None = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            result: Result = end.value
            return result
        match step:
            case Pause(seconds):
                time.sleep(seconds)
                outcome = None
            case Send(request):
                outcome = send(request)


class HttpTransport:
    """HTTP by httpx. Threads may share it."""

    def __init__(
        self, url: str, headers: Mapping[str, str], timeout_s: float, client: httpx.Client | None = None
    ) -> None:
        self._url = base_of(url)
        self._headers = dict(headers)
        self._owned = client is None
        self._client = client or httpx.Client(timeout=timeout_s, limits=LIMITS)

    def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Carry out an operation."""
        steps = exchange(operation.request(), reader_of(operation), repeatable=operation.repeatable, retry=retry)
        return drive(steps, self._send)

    def download(self, path: str, target: Path, retry: Retry) -> SnapshotInfo:
        """Write a snapshot to a file."""

        def attempt(_path: str) -> SnapshotInfo | Unanswered:
            request = self._built(HttpRequest("POST", path))
            try:
                response = self._client.send(request, stream=True)
                try:
                    if response.status_code != 200:
                        response.read()
                        return Unanswered(error_of(response_of(response)), is_in_doubt=False)
                    with SnapshotFile(target) as file:
                        for chunk in response.iter_raw():
                            file.write(chunk)
                        return file.finish(response.headers)
                finally:
                    response.close()
            except httpx.TransportError as error:
                return unanswered(error, self._url)

        steps: Steps[str, SnapshotInfo, SnapshotInfo] = exchange(path, lambda info: info, repeatable=True, retry=retry)
        return drive(steps, attempt)

    def close(self) -> None:
        """Close the connections, unless they are the caller's."""
        if self._owned:
            self._client.close()

    def _built(self, request: HttpRequest) -> httpx.Request:
        if self._client.is_closed:
            raise ClosedError("the client is closed")
        return built(self._client, self._url, self._headers, request)

    def _send(self, request: HttpRequest) -> HttpResponse | Unanswered:
        try:
            return response_of(self._client.send(self._built(request)))
        except httpx.TransportError as error:
            return unanswered(error, self._url)


LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20)


def built(
    client: httpx.Client | httpx.AsyncClient, url: str, headers: Mapping[str, str], request: HttpRequest
) -> httpx.Request:
    """Return the request as httpx sends it."""
    kind = {} if request.body is None else {"content-type": "application/json"}
    return client.build_request(
        request.method,
        url + request.path,
        content=request.body,
        headers={**headers, **kind, **(request.headers or {})},
    )
