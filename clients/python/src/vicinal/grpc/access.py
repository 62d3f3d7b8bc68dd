"""The audit and keys as protobuf messages."""

from __future__ import annotations

from typing import Any

from ..access_operations import AuditPage, AuditRecord, CreateKey, KeyInfo
from ..collection_operations import Quotas
from ..values import microseconds, moment_of, texts_of
from .values import filter_message, read_filter
from .wire import fields, message, read_bytes, read_signed, read_text, read_unsigned, signed, text, texts, unsigned

_RECORD_TEXTS = {2: "key", 3: "operation", 4: "collection", 5: "target", 7: "error", 8: "transport", 9: "address"}
_RECORD_NUMBERS = {10: "calls", 11: "lost"}


def read_audit(data: bytes) -> AuditPage:
    """Return a page of the audit from a ListAuditResponse."""
    records: list[AuditRecord] = []
    cursor: str | None = None
    for number, value in fields(data):
        if number == 1:
            records.append(_record_of(read_bytes(value)))
        elif number == 2:
            cursor = read_text(value) or None
    return AuditPage(records, cursor)


def _record_of(data: bytes) -> AuditRecord:
    record: dict[str, Any] = {"allowed": False}
    for number, value in fields(data):
        if number == 1:
            record["time"] = moment_of(read_signed(value))
        elif number == 6:
            record["allowed"] = bool(read_unsigned(value))
        elif number in _RECORD_TEXTS:
            record[_RECORD_TEXTS[number]] = read_text(value)
        elif number in _RECORD_NUMBERS:
            record[_RECORD_NUMBERS[number]] = read_unsigned(value)
    return AuditRecord(**record)


def key_message(key: CreateKey) -> bytes:
    """Return the KeyInfo of a key to create."""
    quotas = key.quotas or Quotas()
    bounds = (quotas.points, quotas.requests_per_second, quotas.searches_in_flight)
    counted = b"".join(unsigned(number, value) for number, value in enumerate(bounds, 1) if value is not None)
    return b"".join(
        (
            text(1, key.name),
            text(2, key.role),
            texts(3, texts_of(key.collections or (), "collections")),
            message(4, filter_message(key.filter)) if key.filter is not None else b"",
            signed(5, microseconds(key.expires_at)) if key.expires_at is not None else b"",
            message(6, counted) if key.quotas is not None else b"",
        )
    )


def read_key(data: bytes) -> KeyInfo:
    """Return what a key may do from a KeyInfo."""
    parts = fields(data)
    single = dict(parts)
    return KeyInfo(
        name=read_text(single.get(1, b"")),
        role=read_text(single.get(2, b"")),  # type: ignore[arg-type]
        collections=[read_text(value) for number, value in parts if number == 3] or None,
        filter=read_filter(read_bytes(single[4])) if 4 in single else None,
        expires_at=moment_of(read_signed(single[5])) if 5 in single else None,
        quotas=_quotas_of(read_bytes(single[6])) if 6 in single else None,
    )


def _quotas_of(data: bytes) -> Quotas:
    single = {number: read_unsigned(value) for number, value in fields(data)}
    return Quotas(points=single.get(1), requests_per_second=single.get(2), searches_in_flight=single.get(3))
