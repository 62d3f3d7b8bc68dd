"""
Reads hits with the usual fields in place. The general way, field by field, takes more than twice as long, and reading
hits is most of a client's work for a search.

    a hit         0a 28 0a 26 0a 24 <36 characters of the id>  11 <distance>  1a <length> <payload>
    a payload     [08 <type of content>]  [12 <length> <content>]  [1a <length> <attributes>]
    attributes    {0a <length>  0a <length> <name>  12 <length> <value>}
    a value       0a <length> <text>, or 11 <number>; any other kind is read the general way

Parts in <> stand for their bytes, parts in [] may be absent, and parts in {} may be repeated.
"""

from __future__ import annotations

import struct

from ..points import ContentType, Hit
from ..values import AttributeValue
from .values import CONTENT_TYPES, number_of, read_value
from .wire import head, read_varint

_ID_HEAD = head(1, 40) + head(1, 38) + head(1, 36)
_ID_AT = len(_ID_HEAD)
_DISTANCE_AT = _ID_AT + 36
_PAYLOAD_AT = _DISTANCE_AT + 9
_NUMBER_1, _DOUBLE_2, _TEXT_1, _TEXT_2, _MESSAGE_3 = 0x08, 0x11, 0x0A, 0x12, 0x1A
"""The bytes before a field's content, which encode its number in the message."""
_SHORT_MAX = 0x7F
"""The longest field whose length is one byte."""

_unpack_double = struct.Struct("<d").unpack_from


class _UnusualError(Exception):
    """The hit has other fields than the usual ones."""


def read_usual_hit(data: bytes) -> Hit | None:
    """Return a hit requested with distance and payload, or None if its layout is not the one described above."""
    try:
        if not data.startswith(_ID_HEAD) or data[_DISTANCE_AT] != _DOUBLE_2 or data[_PAYLOAD_AT] != _MESSAGE_3:
            return None
        (distance,) = _unpack_double(data, _DISTANCE_AT + 1)
        at, end = _content_of(data, _PAYLOAD_AT)
        if end != len(data):
            return None
        content_type: ContentType = "Image"
        content = ""
        attributes: dict[str, AttributeValue] = {}
        if data[at] == _NUMBER_1:
            content_type = CONTENT_TYPES[data[at + 1]]
            at += 2
        if data[at] == _TEXT_2:
            at, stop = _content_of(data, at)
            content = data[at:stop].decode()
            at = stop
        if at < end and data[at] == _MESSAGE_3:
            at, stop = _content_of(data, at)
            attributes = _attributes(data, at, stop)
            at = stop
        if at != end:
            return None
    except (IndexError, struct.error, _UnusualError):
        return None
    return Hit(
        id=data[_ID_AT:_DISTANCE_AT].decode(),
        content=content,
        content_type=content_type,
        attributes=attributes,
        distance=distance,
    )


def _attributes(data: bytes, at: int, end: int) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    while at < end:
        if data[at] != _TEXT_1:
            raise _UnusualError
        at, entry_end = _content_of(data, at)
        if data[at] != _TEXT_1:
            raise _UnusualError
        at, stop = _content_of(data, at)
        name = data[at:stop].decode()
        if data[stop] != _TEXT_2:
            raise _UnusualError
        at, stop = _content_of(data, stop)
        if stop != entry_end:
            raise _UnusualError
        if data[at] == _DOUBLE_2 and stop - at == 9:
            found[name] = number_of(_unpack_double(data, at + 1)[0])
        else:
            found[name] = read_value(data[at:stop])
        at = stop
    if at != end:
        raise _UnusualError
    return found


def _content_of(data: bytes, at: int) -> tuple[int, int]:
    """Return the beginning and the end of the content of the field at this position."""
    length = data[at + 1]
    if length <= _SHORT_MAX:
        return at + 2, at + 2 + length
    length, at = read_varint(data, at + 1)
    return at, at + length
