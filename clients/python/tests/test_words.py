from __future__ import annotations

import pytest

from vicinal import (
    CursorExpiredError,
    F,
    Highlight,
    Include,
    InvalidArgumentError,
    Judgement,
    Query,
    Relevance,
    Vicinal,
    Words,
)


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


def test_judgements_measure_searches(client: Vicinal) -> None:
    client.collections.put("judged", 2, words=Words(paths={"content": 1, "title": 3}))
    texts = client.collection("judged")
    try:
        bread = texts.insert([1, 0], "anadama bread of cornmeal")
        flour = texts.insert([0, 1], "rye flour for bread")
        judgements = [
            Judgement({bread: 2, flour: 1}, words="anadama bread"),
            Judgement({flour: 1, "3f2b8c1e-9d47-4a60-8b0e-5c1f0a7d2e94": 1}, words="rye", near=[1, 0]),
        ]
        answer = texts.evaluate(judgements, metric="Cosine", k=1, balance=0.9, sweep=["balance", "paths"])
        given, best = answer.given, answer.best
        assert best is not None
        assert answer.missing == 1
        assert given.setting.balance == 0.9
        assert given.setting.paths == {"content": 1, "title": 3}
        assert given.queries == [Relevance(1, 0.5, 1), Relevance(0, 0, 0)]
        assert given.mean == Relevance(0.5, 0.25, 0.5)
        assert given.low.ndcg <= given.mean.ndcg <= given.high.ndcg
        assert best.mean.ndcg == 1
        assert len(answer.curve) == 21 + 4
        with pytest.raises(InvalidArgumentError, match="no point with a grade"):
            texts.evaluate([Judgement({bread: 0}, words="bread")])
        with pytest.raises(InvalidArgumentError, match="a Judgement is needed"):
            texts.evaluate([{}])  # type: ignore[list-item]
    finally:
        client.collections.delete("judged")
