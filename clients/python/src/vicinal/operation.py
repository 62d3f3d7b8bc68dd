"""
An operation: what is asked of the service, and how its answer is read. No operation touches the network: `exchange.py`
says what to send and when, and the blocking and the async client do so. So both have the same operations.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from .clusters import Consistency, OnPartial
from .errors import InvalidArgumentError
from .values import Json, from_json

Answer_co = TypeVar("Answer_co", covariant=True)

_collection_name = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def check_name(name: str) -> str:
    """Refuse what cannot be the name of a collection or an alias: in a path it would lead elsewhere."""
    if _collection_name.fullmatch(name):
        return name
    raise InvalidArgumentError(
        f"{json.dumps(name)} cannot be the name of a collection: "
        "1 to 63 of a-z, 0-9, _ and -; the first is a letter or a digit"
    )


@dataclass(frozen=True, slots=True)
class Place:
    """The collection whose points are meant; None is the default one."""

    collection: str | None = None

    def __post_init__(self) -> None:
        if self.collection is not None:
            check_name(self.collection)

    @property
    def path(self) -> str:
        """What the paths of points begin with."""
        return "" if self.collection is None else f"/collections/{self.collection}"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is sent."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What came back. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        """What the body says."""
        return from_json(self.body)


class Operation(ABC, Generic[Answer_co]):
    """
    Something that the service does. Its fields are the parameters of the clients' method, its docstring is that of the
    method.
    """

    __slots__ = ()

    @property
    def repeatable(self) -> bool:
        """
        Whether the request may be sent again when nobody knows if it took effect. One that was refused ("come again
        later") may be repeated in any case.
        """
        return True

    @property
    def consistency(self) -> Consistency | None:
        """How new the answer of a cluster has to be; None leaves it to the client. A field of the reads."""
        return None

    @property
    def on_partial(self) -> OnPartial | None:
        """Allows a partial answer, and is told of it. A field of the reads that can be answered in part."""
        return None

    @property
    def partial_after_s(self) -> float | None:
        """How long nodes are waited for before the answer is partial. A field of the same reads."""
        return None

    @abstractmethod
    def request(self) -> HttpRequest:
        """Return the request; called once, whatever the number of tries."""

    @abstractmethod
    def answer(self, response: HttpResponse) -> Answer_co:
        """Return what a successful response says."""
