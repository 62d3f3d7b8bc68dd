"""
An operation: the request to the service, and how to read its answer. Operations do not use the network: `exchange.py`
decides what to send and when, and the blocking and the async client send it. So both clients have the same operations.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from .clusters import Consistency
from .errors import InvalidArgumentError
from .values import Json, from_json

Answer_co = TypeVar("Answer_co", covariant=True)

_collection_name = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def check_name(name: str) -> str:
    """Refuse an invalid name of a collection or an alias: in a path, it could lead to another route."""
    if _collection_name.fullmatch(name):
        return name
    raise InvalidArgumentError(
        f"{json.dumps(name)} cannot be the name of a collection: "
        "1 to 63 of a-z, 0-9, _ and -; the first is a letter or a digit"
    )


@dataclass(frozen=True, slots=True)
class Place:
    """The collection of a request; None is the default collection."""

    collection: str | None = None

    def __post_init__(self) -> None:
        if self.collection is not None:
            check_name(self.collection)

    @property
    def path(self) -> str:
        """The prefix of the paths of points."""
        return "" if self.collection is None else "/collections/" + self.collection


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to send."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A received response. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        """The parsed body."""
        return from_json(self.body)


@dataclass(frozen=True)
class Operation(ABC, Generic[Answer_co]):
    """
    An operation of the service. Its fields after `place` are the parameters of the clients' method, and its docstring
    is that of the method.
    """

    __slots__ = ()

    place: Place

    @property
    def repeatable(self) -> bool:
        """
        Whether the request may be sent again when it is unknown whether it took effect. A request that was refused
        ("try again later") may be repeated in any case.
        """
        return True

    @property
    def consistency(self) -> Consistency | None:
        """How up to date the answer of a cluster must be; None for the client's setting. Reads have this field."""
        return None

    @abstractmethod
    def request(self) -> HttpRequest:
        """Return the request; called only once for all tries."""

    @abstractmethod
    def answer(self, response: HttpResponse) -> Answer_co:
        """Return the result of a successful response."""
