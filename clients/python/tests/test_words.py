from __future__ import annotations

import pytest

from vicinal import CursorExpiredError, F, Highlight, Include, InvalidArgumentError, Query, Vicinal, Words


def test_words_find_points_alone_and_with_a_vector(client: Vicinal) -> None:
    words = Words(paths={"content": 1, "title": 3}, language="english")
    created = client.collections.put("texts", 2, words=words)
    assert created.info.words == words
    texts = client.collection("texts")
    try:
        bread = texts.insert([1, 0], "anadama bread of cornmeal", attributes={"title": "bread"})
        flour = texts.insert([0, 1], "rye flour for bread")
        found = texts.search(words="bread")
        assert found.ids == [bread, flour]
        first, second = found.hits
        assert (first.score, first.content, first.distance) == (1, "anadama bread of cornmeal", None)
        assert second.score is not None
        assert second.words is not None
        assert 0 < second.score < 1
        both = texts.search([0, 1], "Cosine", words="bread", balance=0.9)
        assert both.ids == [flour, bread]
        assert both.hits[0].distance == 0
        shown = texts.search(words="rye", include=Include(highlight=True))
        assert shown.hits[0].highlight == [Highlight("content", ["", "rye", " flour for bread"])]
        assert texts.count(F("content").matches("bread rye")) == 1
        assert texts.count(F("content").has_phrase("bread rye")) == 0
        page = texts.search(words="bread", limit=1, cursor="")
        assert page.ids == [bread]
        assert page.next_cursor is not None
        rest = texts.search_batch([Query(words="bread", limit=1, cursor=page.next_cursor), Query(words="rye")])
        assert [result.ids for result in rest] == [[flour], [flour]]
        assert rest[0].next_cursor is None
        with pytest.raises(CursorExpiredError):
            texts.search(words="bread", cursor="a" * 16 + ".1")
        with pytest.raises(InvalidArgumentError, match="balance is given"):
            texts.search(words="bread", balance=0.5)
        assert client.collections.put("texts", words=False).info.words is None
        with pytest.raises(InvalidArgumentError, match="has no words"):
            texts.search(words="bread")
    finally:
        client.collections.delete("texts")
