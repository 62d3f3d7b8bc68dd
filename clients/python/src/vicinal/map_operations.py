"""Points with their neighbours, to draw a map of a collection."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from urllib.parse import urlencode

from .clusters import Consistency
from .filters import FilterLike, json_of_filter
from .operation import HttpRequest, HttpResponse, Operation, Place
from .points import Metric
from .values import Attributes, decode_attributes, texts_of


@dataclass(frozen=True, slots=True)
class MapPoint:
    """A point of a map. Neighbours are indexes into the map's list of points, closest first."""

    id: str
    neighbours: list[int]
    distances: list[float]
    content: str | None = None
    content_type: str | None = None
    attributes: Attributes | None = None


@dataclass(frozen=True, slots=True)
class PointMap:
    """Points with their neighbours among these points. They are a sample if more points match."""

    metric: Metric
    seed: int
    k: int
    matching: int
    points: list[MapPoint]


@dataclass(frozen=True, slots=True)
class MapPoints(Operation[PointMap]):
    """
    Return points, or a random sample of `limit` of them, each with its `k` nearest neighbours within the sample: the
    data for a layout in the plane. No vectors are sent.

    The same `seed` samples the same points. `attributes` are paths to return with the points, and `content` is how many
    characters of each content to return. Only HTTP has this. Only one map of a collection is made at a time.

    `consistency` is that of `search`.
    """

    place: Place
    _: KW_ONLY
    limit: int | None = None
    metric: Metric = "Cosine"
    k: int | None = None
    seed: int = 0
    ef: int | None = None
    filter: FilterLike | None = None
    attributes: Sequence[str] = ()
    content: int = 0
    consistency: Consistency | None = None

    def request(self) -> HttpRequest:
        parameters: list[tuple[str, str | int]] = [("similarity", self.metric), ("seed", self.seed)]
        numbers = {"limit": self.limit, "k": self.k, "ef": self.ef}
        parameters += [(name, value) for name, value in numbers.items() if value is not None]
        if self.content > 0:
            parameters.append(("content", self.content))
        if self.filter is not None:
            parameters.append(("filter", json.dumps(json_of_filter(self.filter))))
        parameters += [("attributes", path) for path in texts_of(self.attributes, "attributes")]
        return HttpRequest("GET", f"{self.place.path}/map?{urlencode(parameters)}")

    def answer(self, response: HttpResponse) -> PointMap:
        answer = response.json
        return PointMap(
            metric=answer["similarity"],
            seed=answer["seed"],
            k=answer["k"],
            matching=answer["matching"],
            points=[
                MapPoint(
                    id=point["id"],
                    neighbours=point["neighbours"],
                    distances=point["distances"],
                    content=point.get("content"),
                    content_type=point.get("content_type"),
                    attributes=decode_attributes(point["attributes"]) if "attributes" in point else None,
                )
                for point in answer["points"]
            ],
        )
