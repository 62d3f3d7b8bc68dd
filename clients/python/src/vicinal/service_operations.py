"""What the service says about itself."""

from __future__ import annotations

from dataclasses import dataclass

from .operation import HttpRequest, HttpResponse, Operation, Place


@dataclass(frozen=True, slots=True)
class Health(Operation[str]):
    """Return "OK" if the service answers at all, also while it is loading its points."""

    place: Place

    def request(self) -> HttpRequest:
        return HttpRequest("GET", "/health")

    def answer(self, response: HttpResponse) -> str:
        return response.body.decode()


@dataclass(frozen=True, slots=True)
class Ready(Operation[str]):
    """
    Return "ready" when the points are loaded; before that, retries wait for it and then raise `NotReadyError`.

    If changes are refused because the disk is full, the text says so.
    """

    place: Place

    def request(self) -> HttpRequest:
        return HttpRequest("GET", "/readyz")

    def answer(self, response: HttpResponse) -> str:
        return response.body.decode()


@dataclass(frozen=True, slots=True)
class Metrics(Operation[str]):
    """Return the metrics in the text format of Prometheus."""

    place: Place

    def request(self) -> HttpRequest:
        return HttpRequest("GET", "/metrics")

    def answer(self, response: HttpResponse) -> str:
        return response.body.decode()
