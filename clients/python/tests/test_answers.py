"""Reading HTTP answers, in whatever parts they arrive."""

from __future__ import annotations

import httpcore
import pytest

from vicinal.answer_reader import AnswerReader

USUAL = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Name: caf\xe9\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nx-trailer: 1\r\n\r\n"
PRECEDED = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + USUAL
CLOSING = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello"


def read(answer: bytes, part_bytes: int) -> tuple[AnswerReader, bytes]:
    reader = AnswerReader()
    body = []
    for start in range(0, len(answer), part_bytes):
        assert not reader.is_complete
        reader.feed(answer[start : start + part_bytes])
        body += reader.take_body()
    return reader, b"".join(body)


@pytest.mark.parametrize("part_bytes", [1, 7, 1000])
@pytest.mark.parametrize("answer", [USUAL, CHUNKED, PRECEDED, CLOSING])
def test_an_answer_is_read_from_any_parts(answer: bytes, part_bytes: int) -> None:
    reader, body = read(answer, part_bytes)
    assert reader.is_complete
    assert (reader.status, body) == (200, b"hello")
    assert reader.keeps_alive == (answer != CLOSING)
    if answer in (USUAL, PRECEDED):
        assert reader.headers == {"content-length": "5", "x-name": "café"}


def test_a_body_without_a_length_lasts_until_the_connection_ends() -> None:
    reader, body = read(b"HTTP/1.0 200 OK\r\n\r\nhello", 1000)
    assert not reader.is_complete
    reader.feed(b"")
    assert reader.is_complete
    assert body == b"hello"
    assert not reader.keeps_alive


def test_an_answer_without_a_body_ends_with_its_head() -> None:
    reader, body = read(b"HTTP/1.1 204 No Content\r\n\r\n", 1000)
    assert reader.is_complete
    assert body == b""
    assert reader.keeps_alive


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 2", USUAL[:-1], CHUNKED[:-1]])
def test_an_answer_that_is_cut_off_is_an_error(start: bytes) -> None:
    reader, _ = read(start, 1000)
    with pytest.raises(httpcore.RemoteProtocolError, match="ended before the answer did"):
        reader.feed(b"")


@pytest.mark.parametrize("other", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n\0\1"])
def test_what_is_no_answer_is_an_error(other: bytes) -> None:
    with pytest.raises(httpcore.RemoteProtocolError, match=r"not an HTTP answer|ended"):
        read(other, 1000)[0].feed(b"")


def test_a_head_without_end_is_an_error() -> None:
    with pytest.raises(httpcore.RemoteProtocolError, match="longer than 102400 bytes"):
        read(b"HTTP/1.1 200 OK\r\n" + b"x-name: value\r\n" * 10_000, 1000)


@pytest.mark.parametrize("more", [b"HTTP/1.1 200 OK\r\n\r\n", b"junk"])
@pytest.mark.parametrize("answer", [USUAL, CLOSING])
def test_a_connection_with_more_than_its_answer_is_not_used_again(answer: bytes, more: bytes) -> None:
    reader, body = read(answer + more, 1000)
    assert reader.is_complete
    assert (reader.status, body) == (200, b"hello")
    assert not reader.keeps_alive
