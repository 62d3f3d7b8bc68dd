"""Usual hits of gRPC are read in place. The result must equal that of reading them field by field."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pytest

from vicinal import GeoPoint, Hit, Include
from vicinal.errors import InternalError
from vicinal.grpc.messages import payload, read_any_hit
from vicinal.grpc.usual_hits import read_usual_hit
from vicinal.grpc.values import point_id
from vicinal.grpc.wire import double, message, unsigned
from vicinal.values import Attributes

ID = "fa6cbc9c-4eb5-4621-b311-3fb9ca53d5f0"
INCLUDE = Include(distance=True, payload=True)
CONTENTS = ["", "a title", "straße", "x" * 127, "x" * 128, "x" * 20_000]
ATTRIBUTES: list[Attributes] = [
    {},
    {"row": 3, "kind": "row"},
    {"price": 2.5, "low": -0.0, "large": 1e300, "": "", "a" * 200: "b" * 200},
    {
        "on": True,
        "place": GeoPoint(52.5, 13.4),
        "at": datetime(2020, 1, 2, tzinfo=UTC),
        "tags": ["a", 1],
        "in": {"a": 1},
    },
]


def hit_of(content: str, attributes: Attributes, distance: float = 0.25) -> bytes:
    stored = payload(content, "Text", attributes, None, None)
    return message(1, point_id(ID)) + double(2, distance) + message(3, stored)


def fields_of(hit: Hit) -> tuple[object, ...]:
    return hit.id, hit.distance, hit.content, hit.content_type, hit.attributes, hit.expires_at, hit.vector, hit.version


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_usual_hits_are_read_in_place(content: str, attributes: Attributes) -> None:
    data = hit_of(content, attributes)
    hit = read_usual_hit(data)
    assert hit is not None
    assert fields_of(hit) == fields_of(read_any_hit(data, INCLUDE))
    assert (hit.content, hit.attributes) == (content, attributes)


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        payload("an image", "Image", None, None, None),
        payload("", "Image", {"row": 1}, None, None)[2:],
        payload("it expires", "Text", {"row": 1}, datetime(2030, 1, 2, tzinfo=UTC), None),
        payload("a field of a later version", "Text", {"row": 1}, None, None) + unsigned(9, 1),
        message(3, message(1, message(2, double(2, 1)) + message(1, b"later"))),
    ],
)
@pytest.mark.parametrize("id", [ID, "0" * 36, "short"])
def test_other_hits_are_read_alike(id: str, stored: bytes) -> None:
    data = message(1, point_id(id)) + double(2, 0.25) + message(3, stored)
    hit = read_usual_hit(data)
    assert hit is None or fields_of(hit) == fields_of(read_any_hit(data, INCLUDE))
    assert read_usual_hit(data + unsigned(5, 7)) is None
    assert read_usual_hit(message(3, stored) + data) is None


def test_a_hit_that_is_cut_off_is_not_a_usual_one() -> None:
    data = hit_of("a title", {"row": 3, "kind": "row"})
    for end in range(len(data)):
        assert read_usual_hit(data[:end]) is None


def test_a_wrong_length_is_an_error_and_never_another_hit() -> None:
    data = hit_of("a title", {"row": 3, "kind": "row"})
    whole = read_usual_hit(data)
    assert whole is not None
    for at in range(len(data)):
        for change in (-1, 1, 0x80):
            changed = data[:at] + bytes([(data[at] + change) % 256]) + data[at + 1 :]
            try:
                expected: Hit | None = read_any_hit(changed, INCLUDE)
            except (InternalError, KeyError, IndexError, TypeError, ValueError, struct.error):
                expected = None
            try:
                hit = read_usual_hit(changed)
            except (InternalError, ValueError):
                hit = None
            if hit is not None:
                assert expected is not None, f"byte {at} changed by {change}"
                assert repr(fields_of(hit)) == repr(fields_of(expected)), f"byte {at} changed by {change}"
