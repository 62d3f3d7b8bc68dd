"""What only a key with the role `admin` may do: read the audit, and create, list and revoke keys."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Literal, TypeAlias
from urllib.parse import urlencode

from .collection_operations import Quotas
from .errors import InvalidArgumentError
from .filters import FilterLike, json_of_filter
from .operation import HttpRequest, HttpResponse, Operation
from .values import Json, check_whole, decode_moment, decode_value, encode_moment, texts_of, to_json

Role: TypeAlias = Literal["read", "write", "admin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """A call that has ended."""

    time: datetime
    operation: str
    """`Unknown` for calls of no operation, `Lost` for lines that could not be stored."""
    allowed: bool
    """False if the caller had no right to call."""
    key: str | None = None
    """The name of the caller's key; None if there was no valid one."""
    collection: str | None = None
    target: str | None = None
    """The key or the node that the call has named."""
    error: str | None = None
    """The reason why the call failed."""
    transport: str | None = None
    address: str | None = None
    calls: int | None = None
    """How many further calls without a valid key there were in this second."""
    lost: int | None = None
    """How many records are missing here."""


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Records, the newest first. A page can have fewer than the limit, or none, and still a cursor for the next one."""

    records: list[AuditRecord]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyInfo:
    """What a key may do; what is None restricts nothing."""

    name: str
    role: Role
    collections: list[str] | None = None
    filter: FilterLike | None = None
    expires_at: datetime | None = None
    quotas: Quotas | None = None


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key: what callers send, which nobody can find out later, and what it may do."""

    key: str
    info: KeyInfo


@dataclass(frozen=True, slots=True)
class Audit(Operation[AuditPage]):
    """
    Return what callers have done, from the audit of the node that answers, the newest first.

    `since` is the first moment and `until` the one after the last; `key` is the name of the callers' key, and `allowed`
    False for calls that they had no right to.
    """

    _: KW_ONLY
    since: datetime | None = None
    until: datetime | None = None
    key: str | None = None
    operation: str | None = None
    collection: str | None = None
    allowed: bool | None = None
    limit: int = 100
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_whole(self.limit, "limit", 1)

    def request(self) -> HttpRequest:
        given = {
            "since": encode_moment(self.since, "since") if self.since is not None else None,
            "until": encode_moment(self.until, "until") if self.until is not None else None,
            "key": self.key,
            "operation": self.operation,
            "collection": self.collection,
            "allowed": str(self.allowed).lower() if self.allowed is not None else None,
            "limit": str(self.limit),
            "cursor": self.cursor,
        }
        return HttpRequest("GET", f"/audit?{urlencode({name: value for name, value in given.items() if value})}")

    def answer(self, response: HttpResponse) -> AuditPage:
        records = [AuditRecord(**{**each, "time": decode_moment(each["time"])}) for each in response.json["records"]]
        return AuditPage(records, response.json.get("next_cursor"))


@dataclass(frozen=True, slots=True)
class CreateKey(Operation[CreatedKey]):
    """
    Store a new key in the file that `API_KEYS_FILE` names, and return it: it can be used at once. Raises
    `AlreadyExistsError` if a key has this name.

    `collections` are names, or beginnings followed by `*`. With a `filter`, only points that match exist for the key.
    """

    name: str
    role: Role = "read"
    _: KW_ONLY
    collections: Sequence[str] | None = None
    filter: FilterLike | None = None
    expires_at: datetime | None = None
    quotas: Quotas | None = None

    def __post_init__(self) -> None:
        check_key_name(self.name)
        # Over gRPC, an empty list would be an absent one, and the key for all collections.
        if self.collections is not None and len(texts_of(self.collections, "collections")) == 0:
            raise InvalidArgumentError("collections is empty: None is for all collections")
        if self.quotas is not None and self.quotas.bytes is not None:
            raise InvalidArgumentError("quotas.bytes is for collections: a key has none")

    @property
    def repeatable(self) -> bool:
        """False: after a call that took effect, there is a key with this name."""
        return False

    def request(self) -> HttpRequest:
        body: dict[str, Json] = {"name": self.name, "role": self.role}
        if self.collections is not None:
            body["collections"] = texts_of(self.collections, "collections")
        if self.filter is not None:
            body["filter"] = json_of_filter(self.filter)
        if self.expires_at is not None:
            body["expires_at"] = encode_moment(self.expires_at, "expires_at")
        if self.quotas is not None:
            body["quotas"] = self.quotas.to_json()
        return HttpRequest("POST", "/keys", to_json(body))

    def answer(self, response: HttpResponse) -> CreatedKey:
        return CreatedKey(response.json["key"], _info_of(response.json))


@dataclass(frozen=True, slots=True)
class ListKeys(Operation[list[KeyInfo]]):
    """Return the keys of the file that `API_KEYS_FILE` names, without the keys themselves."""

    def request(self) -> HttpRequest:
        return HttpRequest("GET", "/keys")

    def answer(self, response: HttpResponse) -> list[KeyInfo]:
        return [_info_of(json) for json in response.json["keys"]]


@dataclass(frozen=True, slots=True)
class RevokeKey(Operation[None]):
    """Remove a key, or raise `NotFoundError`: calls with it are refused at once."""

    name: str

    def __post_init__(self) -> None:
        check_key_name(self.name)

    @property
    def repeatable(self) -> bool:
        """False: after a call that took effect, the key is missing."""
        return False

    def request(self) -> HttpRequest:
        return HttpRequest("DELETE", "/keys/" + self.name)

    def answer(self, response: HttpResponse) -> None:
        """Return nothing."""


def check_key_name(name: str) -> None:
    """Refuse an invalid name of a key: in a path, it could lead to another route."""
    if re.fullmatch(r"(?!\.+$)[A-Za-z0-9_.-]{1,64}", name) is None:
        raise InvalidArgumentError(f"{json.dumps(name)} cannot be the name of a key: 1 to 64 letters, digits and _.-")


def _info_of(json: Json) -> KeyInfo:
    return KeyInfo(
        name=json["name"],
        role=json["role"],
        collections=json.get("collections"),
        filter=decode_value(json["filter"]) if "filter" in json else None,  # type: ignore[arg-type]
        expires_at=decode_moment(json["expires_at"]) if "expires_at" in json else None,
        quotas=Quotas(**json["quotas"]) if "quotas" in json else None,
    )
