"""The operations that return the state of the service."""

from __future__ import annotations

from dataclasses import dataclass

from .operation import HttpRequest, HttpResponse, Operation
from .values import Json


@dataclass(frozen=True, slots=True)
class Health(Operation[str]):
    """Return "OK" if the service answers, even while it is loading its points."""

    def request(self) -> HttpRequest:
        return HttpRequest("GET", "/health")

    def answer(self, response: HttpResponse) -> str:
        return response.body.decode()


@dataclass(frozen=True, slots=True)
class Ready(Operation[str]):
    """
    Return "ready" when the points are loaded. Until then, retries wait; when they are used up, raise `NotReadyError`.

    If changes are refused because the disk is full, the text says so.
    """

    def request(self) -> HttpRequest:
        return HttpRequest("GET", "/readyz")

    def answer(self, response: HttpResponse) -> str:
        return response.body.decode()


@dataclass(frozen=True, slots=True)
class Metrics(Operation[str]):
    """Return the metrics in the text format of Prometheus."""

    def request(self) -> HttpRequest:
        return HttpRequest("GET", "/metrics")

    def answer(self, response: HttpResponse) -> str:
        return response.body.decode()


@dataclass(frozen=True, slots=True)
class Stats(Operation[dict[str, Json]]):
    """
    Return the state of the collection's index, in the form of `GET /stats`: linked and waiting points, tombstones,
    memory, and for each metric the plan of searches with its measured recall.
    """

    def request(self) -> HttpRequest:
        return HttpRequest("GET", f"{self.place.path}/stats")

    def answer(self, response: HttpResponse) -> dict[str, Json]:
        return dict(response.json)


@dataclass(frozen=True, slots=True)
class SlowQueries(Operation[list[dict[str, Json]]]):
    """
    Return the slowest requests of the last hour, slowest first, in the form of `GET /slow-queries`: those to the
    client's collection, or to all collections if the client has none.
    """

    def request(self) -> HttpRequest:
        return HttpRequest("GET", f"{self.place.path}/slow-queries")

    def answer(self, response: HttpResponse) -> list[dict[str, Json]]:
        return list(response.json["queries"])


@dataclass(frozen=True, slots=True)
class Settings(Operation[list[dict[str, Json]]]):
    """Return the settings of the service with their sources, in the form of `GET /settings`; secrets are masked."""

    def request(self) -> HttpRequest:
        return HttpRequest("GET", "/settings")

    def answer(self, response: HttpResponse) -> list[dict[str, Json]]:
        return list(response.json["settings"])
