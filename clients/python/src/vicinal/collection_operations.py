"""The operations on collections and aliases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from .clusters import Consistency
from .errors import InvalidArgumentError
from .operation import HttpRequest, HttpResponse, Operation, check_name
from .values import Json, check_number, check_numbers, check_text, check_whole, encode_value, texts_of, to_json


@dataclass(frozen=True, slots=True)
class Hnsw:
    """Settings of a collection's graph; the service chooses those that are None."""

    m: int | None = None
    ef_construction: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("m", self.m), ("ef_construction", self.ef_construction)):
            if value is not None:
                check_whole(value, f"hnsw.{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """
    The texts that can be searched by words, with their weights by path: `content`, or the path of an attribute.

    `language` is `auto`, `none`, or one like `english`. `k1` and `b` are those of BM25.
    """

    paths: Mapping[str, float]
    language: str = "auto"
    k1: float | None = None
    b: float | None = None

    def __post_init__(self) -> None:
        check_numbers(self.paths, "words.paths")
        check_text(self.language, "words.language")
        for name, value in (("k1", self.k1), ("b", self.b)):
            if value is not None:
                check_number(value, f"words.{name}")

    def to_json(self) -> dict[str, Json]:
        """Return the JSON."""
        json: dict[str, Json] = {"language": self.language, "paths": encode_value(self.paths, "words.paths")}
        parameters = {"k1": self.k1, "b": self.b}
        return {**json, **{name: value for name, value in parameters.items() if value is not None}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """
    What a collection may hold or use at most; None is no limit.

    `bytes` are of memory. As many requests as `requests_per_second` may come at once.
    """

    points: int | None = None
    bytes: int | None = None
    requests_per_second: int | None = None
    searches_in_flight: int | None = None

    def __post_init__(self) -> None:
        for name, value in self.to_json().items():
            check_whole(value, f"quotas.{name}", 1)

    def to_json(self) -> dict[str, Json]:
        """Return the JSON."""
        quotas = {
            "points": self.points,
            "bytes": self.bytes,
            "requests_per_second": self.requests_per_second,
            "searches_in_flight": self.searches_in_flight,
        }
        return {name: value for name, value in quotas.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionInfo:
    """A collection. It has no dimension before the first insert, unless it was created with one."""

    name: str
    dimension: int | None
    points: int
    hnsw: Hnsw
    aliases: list[str]
    embedding_model: str | None = None
    """The model that embeds texts in place of vectors, if the service has embeddings."""
    words: Words | None = None
    """What can be searched by words."""
    quotas: Quotas | None = None
    """What it may hold or use at most."""


@dataclass(frozen=True, slots=True)
class PutCollectionResult:
    """A collection, and whether this call created it."""

    info: CollectionInfo
    created: bool


@dataclass(frozen=True, slots=True)
class ListCollections(Operation[list[CollectionInfo]]):
    """
    Return all collections in alphabetical order, including the collection `default`. `consistency` is how up to date
    the answer of a cluster must be; by default as the client's.
    """

    _: KW_ONLY
    consistency: Consistency | None = None

    def request(self) -> HttpRequest:
        return HttpRequest("GET", "/collections")

    def answer(self, response: HttpResponse) -> list[CollectionInfo]:
        return [_info_of(json) for json in response.json["collections"]]


@dataclass(frozen=True, slots=True)
class GetCollection(Operation[CollectionInfo]):
    """
    Return a collection by its name or an alias, or raise `CollectionNotFoundError`. `consistency` is how up to date the
    answer of a cluster must be; by default as the client's.
    """

    name: str
    _: KW_ONLY
    consistency: Consistency | None = None

    def request(self) -> HttpRequest:
        return HttpRequest("GET", _path_of(self.name))

    def answer(self, response: HttpResponse) -> CollectionInfo:
        return _info_of(response.json)


@dataclass(frozen=True, slots=True)
class PutCollection(Operation[PutCollectionResult]):
    """
    Create a collection. Does nothing if it exists with these settings; raises `AlreadyExistsError` if it exists with
    others.

    Without a dimension, the first insert fixes it. Only words and quotas can be changed later; `words=False` and
    `Quotas()` remove them.
    """

    name: str
    dimension: int | None = None
    _: KW_ONLY
    hnsw: Hnsw | None = None
    words: Words | Literal[False] | None = None
    quotas: Quotas | None = None

    def __post_init__(self) -> None:
        if self.dimension is not None:
            check_whole(self.dimension, "dimension", 1)
        if self.words is not None and self.words is not False and not isinstance(self.words, Words):
            raise InvalidArgumentError(f"words is a {type(self.words).__name__}: Words or False is needed")

    def request(self) -> HttpRequest:
        body: dict[str, Json] = {}
        if self.dimension is not None:
            body["dimension"] = self.dimension
        if self.hnsw is not None:
            settings = {"m": self.hnsw.m, "ef_construction": self.hnsw.ef_construction}
            body["hnsw"] = {name: value for name, value in settings.items() if value is not None}
        if self.words is not None:
            body["words"] = self.words.to_json() if self.words is not False else None
        if self.quotas is not None:
            body["quotas"] = self.quotas.to_json()
        return HttpRequest("PUT", _path_of(self.name), to_json(body))

    def answer(self, response: HttpResponse) -> PutCollectionResult:
        return PutCollectionResult(_info_of(response.json), response.status == 201)


@dataclass(frozen=True, slots=True)
class DeleteCollection(Operation[None]):
    """Delete a collection with its points and aliases, or raise `CollectionNotFoundError`."""

    name: str

    @property
    def repeatable(self) -> bool:
        """False: after a delete that took effect, the collection is missing."""
        return False

    def request(self) -> HttpRequest:
        return HttpRequest("DELETE", _path_of(self.name))

    def answer(self, response: HttpResponse) -> None:
        """Return nothing."""


@dataclass(frozen=True, slots=True)
class SetAliases(Operation[dict[str, str]]):
    """
    Set and remove aliases in one atomic step, and return all aliases after the change: collection names by alias.

    Setting an alias that exists moves it. Removing an alias that does not exist is not an error.
    """

    set: Mapping[str, str] | None = None
    remove: Sequence[str] = ()

    def request(self) -> HttpRequest:
        body = {"set": encode_value(self.set or {}, "set"), "remove": texts_of(self.remove, "remove")}
        return HttpRequest("PUT", "/aliases", to_json(body))

    def answer(self, response: HttpResponse) -> dict[str, str]:
        aliases: dict[str, str] = response.json["aliases"]
        return aliases


def _path_of(name: str) -> str:
    return "/collections/" + check_name(name)


def _info_of(json: Json) -> CollectionInfo:
    return CollectionInfo(
        name=json["name"],
        dimension=json.get("dimension"),
        points=json["points"],
        hnsw=Hnsw(json["hnsw"]["m"], json["hnsw"]["ef_construction"]),
        aliases=json["aliases"],
        embedding_model=json.get("embedding_model"),
        words=Words(**json["words"]) if "words" in json else None,
        quotas=Quotas(**json["quotas"]) if "quotas" in json else None,
    )
