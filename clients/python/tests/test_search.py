from __future__ import annotations

import numpy as np
import pytest

from vicinal import InvalidArgumentError, Metric, NewPoint, Query, Vicinal

COLOURS = {"dark red": [139, 0, 0], "tomato": [255, 99, 71], "navy": [0, 0, 128], "sky blue": [135, 206, 235]}


@pytest.fixture
def colours(points: Vicinal) -> dict[str, str]:
    """Ids by name."""
    new = [NewPoint(vector=vector, content=name) for name, vector in COLOURS.items()]
    return dict(zip(COLOURS, points.insert_batch(new), strict=True))


@pytest.mark.parametrize(
    ("metric", "nearest"),
    [
        ("Euclidean", ["dark red", "tomato"]),
        ("Manhattan", ["dark red", "tomato"]),
        ("Hamming", ["dark red", "tomato"]),
        ("Cosine", ["tomato", "dark red"]),
    ],
)
def test_the_nearest_come_first(points: Vicinal, colours: dict[str, str], metric: Metric, nearest: list[str]) -> None:
    result = points.search([139, 54, 39], metric, limit=2, include=None)
    assert result.ids == [colours[name] for name in nearest]
    assert result.profile is None
    assert [(hit.id, hit.content, hit.distance) for hit in result.hits] == [(id, None, None) for id in result.ids]


def test_a_batch_answers_each_row(points: Vicinal, colours: dict[str, str]) -> None:
    rows = np.array(list(COLOURS.values()))
    results = points.search_batch(Query(metric="Euclidean", limit=1, include=None).for_each(rows))
    assert [result.ids for result in results] == [[id] for id in colours.values()]
    assert points.search_batch([]) == []


def test_a_bad_query_is_named(points: Vicinal, colours: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match="limit"):
        points.search([1, 2, 3], "Cosine", limit=0, include=None)
    queries = [Query(metric="Cosine", near=[1, 2, 3], include=None), Query(metric="Cosine", near=[1, 2], include=None)]
    with pytest.raises(InvalidArgumentError, match=r"queries\[1\]"):
        points.search_batch(queries)
