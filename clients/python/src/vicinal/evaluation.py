"""Measures how well searches agree with judgements of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeAlias, get_args

from .answer_shape import AnswerShape, Boost
from .clusters import Consistency
from .filters import FilterLike, json_of_filter
from .operation import HttpRequest, HttpResponse, Operation
from .points import Metric, check_words
from .values import (
    Json,
    check_choice,
    check_items,
    check_number,
    check_numbers,
    check_whole,
    encode_value,
    to_json,
)
from .vectors import Text, VectorLike, json_of_vector

Sweep: TypeAlias = Literal["balance", "ef", "paths"]
"""A setting of searches that an evaluation can vary."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """
    A query, and the grades of points by id: greater than 0 for those that are relevant.

    A query has `words`, a vector or a `Text` as `near`, or both. True stands for the words of the `Text`.
    """

    relevant: Mapping[str, float]
    _: KW_ONLY
    words: str | Literal[True] | None = None
    near: VectorLike | Text | None = None

    def __post_init__(self) -> None:
        check_numbers(self.relevant, "relevant")
        check_words(self.words)

    def to_json(self) -> dict[str, Json]:
        """Return the JSON."""
        words: dict[str, Json] = {} if self.words is None else {"words": self.words}
        return {**words, **json_of_vector(self.near), "relevant": encode_value(self.relevant, "relevant")}


@dataclass(frozen=True, slots=True)
class Relevance:
    """How well results agree with judgements: 0 to 1, larger is better."""

    ndcg: float
    """The discounted gain of the first k results over the greatest possible, with grades as gains."""
    recall: float
    """The share of the relevant points among the first k results."""
    mrr: float
    """1 over the rank of the first relevant result."""


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """How queries were searched, with the means of all queries. A setting that makes no difference is None."""

    mean: Relevance
    _: KW_ONLY
    balance: float | None = None
    ef: int | None = None
    paths: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A setting, the bounds between which its means are with a probability of 95 %, and the figures of each query."""

    setting: MeasuredSetting
    low: Relevance
    high: Relevance
    queries: list[Relevance]

    @property
    def mean(self) -> Relevance:
        """The means of all queries."""
        return self.setting.mean


@dataclass(frozen=True, slots=True)
class EvaluatedPoints:
    """The answer to `evaluate`."""

    given: Evaluation
    """Of the settings of the call."""
    curve: list[MeasuredSetting]
    """What the sweep has tried."""
    best: Evaluation | None
    """Of the best settings; None without a sweep."""
    missing: int
    """How many points of the judgements are not stored."""


@dataclass(frozen=True, slots=True)
class Evaluate(Operation[EvaluatedPoints]):
    """
    Search for each judged query, and measure how well the first `k` results agree with the judgements.

    `sweep` names settings to vary, to find what is best. `metric`, `balance`, `ef`, `filter`, `boost`, `diversity` and
    `rerank` are those of `search`. This can take long.

    `consistency` is that of `search`.
    """

    judgements: Sequence[Judgement]
    _: KW_ONLY
    k: int = 10
    sweep: Sequence[Sweep] = ()
    metric: Metric | None = None
    balance: float | None = None
    ef: int | None = None
    filter: FilterLike | None = None
    boost: Sequence[Boost] | None = None
    diversity: float | None = None
    rerank: int | None = None
    consistency: Consistency | None = None

    def __post_init__(self) -> None:
        check_items(self.judgements, "judgements", Judgement)
        check_items(self.sweep, "sweep", str)
        if self.balance is not None:
            check_number(self.balance, "balance")
        check_whole(self.k, "k", 1)
        if self.metric is not None or any(judgement.near is not None for judgement in self.judgements):
            check_choice(self.metric, get_args(Metric), "similarity")
        if self.ef is not None:
            check_whole(self.ef, "ef")
        self._shape.check_shape()

    @property
    def _shape(self) -> AnswerShape:
        return AnswerShape(boost=self.boost, diversity=self.diversity, rerank=self.rerank)

    def request(self) -> HttpRequest:
        body: dict[str, Json] = {"k": self.k, "judgements": [each.to_json() for each in self.judgements]}
        if self.sweep:
            body["sweep"] = list(self.sweep)
        if self.metric is not None:
            body["similarity"] = self.metric
        if self.balance is not None:
            body["balance"] = encode_value(self.balance, "balance")
        if self.ef is not None:
            body["ef"] = self.ef
        if self.filter is not None:
            body["filter"] = json_of_filter(self.filter)
        body |= self._shape.json_of_shape()
        return HttpRequest("POST", f"{self.place.path}/points/evaluate", to_json(body))

    def answer(self, response: HttpResponse) -> EvaluatedPoints:
        json = response.json
        return EvaluatedPoints(
            _evaluation_of(json),
            [_setting_of(each) for each in json["curve"]],
            _evaluation_of(json["best"]) if "best" in json else None,
            json["missing"],
        )


def _evaluation_of(json: Json) -> Evaluation:
    queries = [_relevance_of(each) for each in json["queries"]]
    return Evaluation(_setting_of(json), _relevance_of(json["low"]), _relevance_of(json["high"]), queries)


def _setting_of(json: Json) -> MeasuredSetting:
    balance, paths = json.get("balance"), json.get("paths")
    return MeasuredSetting(
        _relevance_of(json),
        balance=None if balance is None else float(balance),
        ef=json.get("ef"),
        paths=None if paths is None else {path: float(weight) for path, weight in paths.items()},
    )


def _relevance_of(json: Json) -> Relevance:
    return Relevance(float(json["ndcg"]), float(json["recall"]), float(json["mrr"]))
