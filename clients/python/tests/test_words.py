from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vicinal import (
    Boost,
    CursorExpiredError,
    F,
    GroupBy,
    Highlight,
    Include,
    InvalidArgumentError,
    Judgement,
    NotFoundError,
    Query,
    Recent,
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
        assert isinstance(both.hits[0].distance, float)
        shown = texts.search(words="rye", include=Include(highlight=True))
        assert shown.hits[0].highlight == [Highlight("content", ["", "rye", " flour for bread"])]
        assert texts.count(F("content").matches("bread rye")) == 1
        assert texts.count(F("content").has_phrase("bread rye")) == 0
        rare = texts.search(words="bread", statistics=F("content").matches("rye"), include=Include(scores=True))
        assert rare.ids == [bread, flour]
        assert rare.hits[0].words != found.hits[0].words
        pinned = Boost(1, filter=F("title") == "bread")
        boosted = texts.search([0, 1], "Cosine", boost=[pinned])
        assert [hit.score is not None for hit in boosted.hits] == [True, True]
        refusals: list[tuple[str, Any]] = [
            ("words is 5: a text is needed", lambda: texts.search(words=5)),  # type: ignore[arg-type]
            ("balance is 'x': a finite number is needed", lambda: texts.search([0, 1], "Cosine", balance="x")),  # type: ignore[arg-type]
            ("diversity is nan: a finite", lambda: texts.search(words="x", diversity=float("nan"))),
            ("boost is a generator: a list", lambda: texts.search(words="x", boost=(each for each in [pinned]))),  # type: ignore[arg-type]
            ("like is a generator: a list", lambda: texts.search(metric="Cosine", like=(each for each in [bread]))),  # type: ignore[arg-type]
            ("boost is a Boost: a list is needed", lambda: texts.search(words="x", boost=Boost(1, filter={}))),  # type: ignore[arg-type]
            ("relevant is a list: a dict is needed", lambda: Judgement([bread], words="x")),  # type: ignore[arg-type]
            ("sweep is a str: a list", lambda: texts.evaluate([Judgement({bread: 1}, words="x")], sweep="ef")),  # type: ignore[arg-type]
            ("words.paths.content is '1': a finite", lambda: Words(paths={"content": "1"})),  # type: ignore[dict-item]
        ]
        for message, call in refusals:
            with pytest.raises(InvalidArgumentError, match=message):
                call()
        with pytest.raises(InvalidArgumentError, match="words is a dict: Words or False is needed"):
            client.collections.put("texts", words={"content": 1})  # type: ignore[arg-type]
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


def test_answers_are_shaped(client: Vicinal) -> None:
    client.collections.put("shaped", 2, words=Words(paths={"content": 1}))
    points = client.collection("shaped")
    now = datetime.now(UTC)
    try:
        near = points.insert([1, 0], "rye bread", attributes={"doc": "a", "at": now - timedelta(days=900)})
        same = points.insert([1, 0.01], "rye flour", attributes={"doc": "a", "pinned": True})
        far = points.insert([0.7, 0.7], "bread of rye", attributes={"doc": 2, "at": now})
        away = points.insert([-1, 0], "stone", attributes={"doc": now})

        def found(**more: Any) -> list[str]:
            return points.search([1, 0], "Cosine", limit=3, **more).ids

        assert found() == [near, same, far]
        assert found(boost=[Boost(5, filter=F("pinned") == True)]) == [same, near, far]  # noqa: E712
        assert found(boost=[Boost(5, recent=Recent("at", "14d"))]) == [far, near, same]
        assert found(boost=[Boost(-5, filter={"doc": "a"})]) == [far, away, near]
        assert found(diversity=0.9) == [near, away, far]
        assert points.search(metric="Cosine", like=[near, same], limit=1).ids == [far]
        assert found(unlike=[near]) == [same, far, away]
        assert points.search(words="rye", metric="Cosine", like=[far], limit=1).hits[0].distance is not None

        grouped = points.search([1, 0], "Cosine", limit=2, group_by=GroupBy("doc", 2), profile=True)
        assert [(each.value, [hit.id for hit in each.hits]) for each in grouped.groups] == [
            ("a", [near, same]),
            (2, [far]),
        ]
        assert grouped.hits == [hit for each in grouped.groups for hit in each.hits]
        assert grouped.profile is not None
        assert [step.step for step in grouped.profile.steps] == ["search", "groups", "page"]
        assert grouped.profile.steps[-1].points == 3
        batch = [Query(words="rye"), Query(words="rye bread", group_by=GroupBy("doc"), include=None)]
        plain, ids_alone = points.search_batch(batch)
        assert plain.groups == []
        assert [(each.value, len(each.hits)) for each in ids_alone.groups] == [("a", 1), (2, 1)]

        missing = "3f2b8c1e-9d47-4a60-8b0e-5c1f0a7d2e94"
        with pytest.raises(NotFoundError, match="like not found"):
            found(like=[missing])
        for given, message in (
            ({"boost": [Boost(101, filter={})]}, r"boost\[0\].weight is 101"),
            ({"boost": [{"weight": 1}]}, r"boost\[0\] is a dict: a Boost is needed"),
            ({"boost": [Boost(1, recent=Recent("at", "2 weeks"))]}, "half_life is"),
            ({"like": near}, "like is a str: a list is needed"),
            ({"diversity": 2.0}, "diversity is 2"),
            ({"group_by": "doc"}, "group_by is a str: a GroupBy is needed"),
            ({"group_by": GroupBy("doc", 101)}, "group_by.size is 101"),
            ({"rerank": 10, "words": "rye"}, "the service has no reranker"),
            ({"on_error": "skip"}, "on_error is given, it needs rerank"),
            ({"words": "rye", "cursor": "", "diversity": 0.1}, "cursor and diversity are both given"),
            ({"on_error": "stop"}, "on_error is"),
        ):
            with pytest.raises(InvalidArgumentError, match=message):
                found(**given)
        with pytest.raises(InvalidArgumentError, match="one of filter and recent"):
            Boost(1)
    finally:
        client.collections.delete("shaped")


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
        assert all(isinstance(each.balance, float | None) for each in answer.curve)
        rye = Boost(9, filter=F("content").matches("rye"))
        boosted = texts.evaluate(judgements, metric="Cosine", k=1, balance=0.9, boost=[rye], diversity=0.1)
        assert boosted.given.queries == [Relevance(0.5, 0.5, 1), Relevance(1, 0.5, 1)]
        with pytest.raises(InvalidArgumentError, match="no point with a grade"):
            texts.evaluate([Judgement({bread: 0}, words="bread")])
        with pytest.raises(InvalidArgumentError, match="a Judgement is needed"):
            texts.evaluate([{}])  # type: ignore[list-item]
    finally:
        client.collections.delete("judged")
