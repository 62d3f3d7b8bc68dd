"""The blocking transports' interface, and HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import httpx

from .clusters import POSITION, Consistency, Session
from .connections import connections_to
from .errors import ClosedError
from .exchange import Pause, Retry, Send, Steps, Unanswered, exchange
from .http_codec import (
    NETWORK_ERRORS,
    base_of,
    reader_of,
    refused,
    request_of,
    unanswered,
    with_headers,
)
from .operation import HttpRequest, HttpResponse, Operation
from .snapshots import SnapshotFile, SnapshotInfo
from .target import Target, Tls

Request = TypeVar("Request")
Response = TypeVar("Response")
Result = TypeVar("Result")


class Transport(Protocol):
    """What a blocking client needs from a connection."""

    def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Run an operation."""

    def download(self, path: str, target: Path, retry: Retry, consistency: Consistency | None) -> SnapshotInfo:
        """Write a snapshot to a file."""

    def close(self) -> None:
        """Close the connection."""


def drive(steps: Steps[Request, Response, Result], send: Callable[[Request], Response | Unanswered]) -> Result:
    """Run the steps of an exchange."""
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
    """HTTP. Threads may share it."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        timeout_s: float,
        client: httpx.Client | None = None,
        session: Session | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._url = base_of(url)
        self._session = session or Session()
        self._connections = connections_to(Target(self._url, headers, timeout_s, tls), client)

    def run(self, operation: Operation[Result], retry: Retry) -> Result:
        """Run an operation."""
        return drive(self.steps(operation, retry), self.send)

    def steps(self, operation: Operation[Result], retry: Retry) -> Steps[HttpRequest, HttpResponse, Result]:
        """Return the steps of an operation, which `send` takes at this node or at another one."""
        return exchange(
            request_of(operation, self._session),
            reader_of(operation),
            repeatable=operation.repeatable,
            retry=retry,
        )

    def download(self, path: str, target: Path, retry: Retry, consistency: Consistency | None) -> SnapshotInfo:
        """Write a snapshot to a file."""

        def attempt(request: HttpRequest) -> SnapshotInfo | Unanswered:
            self._check_open()
            try:
                with self._connections.stream(self._telling(request)) as response:
                    self._session.note(response.headers.get(POSITION))
                    if response.status != 200:
                        return refused(response, b"".join(response.chunks))
                    with SnapshotFile(target) as file:
                        for chunk in response.chunks:
                            file.write(chunk)
                        return file.finish(response.headers)
            except NETWORK_ERRORS as error:
                return unanswered(error, self._url)

        steps: Steps[HttpRequest, SnapshotInfo, SnapshotInfo] = exchange(
            with_headers(HttpRequest("POST", path), self._session.asked(consistency)),
            lambda info: info,
            repeatable=True,
            retry=retry,
        )
        return drive(steps, attempt)

    def close(self) -> None:
        """Close the connections, unless they belong to the caller."""
        self._connections.close()

    def send(self, request: HttpRequest) -> HttpResponse | Unanswered:
        """Send a request once."""
        self._check_open()
        try:
            response = self._connections.send(self._telling(request))
        except NETWORK_ERRORS as error:
            return unanswered(error, self._url)
        self._session.note(response.headers.get(POSITION))
        return response

    def _telling(self, request: HttpRequest) -> HttpRequest:
        """Return a request for its next try, with the cluster position that the session has seen until then."""
        return with_headers(request, self._session.headers)

    def _check_open(self) -> None:
        if self._connections.is_closed:
            raise ClosedError("the client is closed")
