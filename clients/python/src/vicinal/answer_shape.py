"""How a search shapes its answer: boosts, examples, diversity, groups and reranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeAlias, get_args

from .errors import InvalidArgumentError
from .filters import FilterLike, json_of_filter
from .values import Json, check_choice, check_items, check_number, check_text, check_whole, encode_value

OnRerankError: TypeAlias = Literal["fail", "skip"]
"""What a search does if the service's reranking endpoint fails: fail, or answer without reranking."""

ON_ERROR_RULES: tuple[OnRerankError, ...] = get_args(OnRerankError)


@dataclass(frozen=True, slots=True)
class Recent:
    """1 for a moment at the path that is now or later, and half as much for each half-life before, like `14d`."""

    path: str
    half_life: str

    def __post_init__(self) -> None:
        check_text(self.path, "recent.path")
        check_text(self.half_life, "recent.half_life")


@dataclass(frozen=True, slots=True)
class Boost:
    """What raises the scores of some points: a filter or `Recent`. A negative weight raises those of all others."""

    weight: float
    _: KW_ONLY
    filter: FilterLike | None = None
    recent: Recent | None = None

    def __post_init__(self) -> None:
        check_number(self.weight, "boost.weight")
        if (self.filter is None) == (self.recent is None):
            raise InvalidArgumentError("boost must have one of filter and recent")
        if self.recent is not None and not isinstance(self.recent, Recent):
            raise InvalidArgumentError(f"boost.recent is a {type(self.recent).__name__}: a Recent is needed")

    def to_json(self) -> dict[str, Json]:
        """Return the JSON."""
        json: dict[str, Json] = {"weight": encode_value(self.weight, "boost.weight")}
        if self.filter is not None:
            json["filter"] = json_of_filter(self.filter)
        if self.recent is not None:
            json["recent"] = {"path": self.recent.path, "half_life": self.recent.half_life}
        return json


@dataclass(frozen=True, slots=True)
class GroupBy:
    """Groups of points with the same value at a path, and how many points a group has at most."""

    path: str
    size: int = 1

    def __post_init__(self) -> None:
        check_text(self.path, "group_by.path")
        check_whole(self.size, "group_by.size", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShape:
    """
    The part of a query that shapes its answer.

    `like` are ids of points to search near, together with `near` or in place of it, and `unlike` of points to stay away
    from. `boost` raises scores. `rerank` is how many of the best points the service's reranking endpoint ranks anew,
    and `on_error` says what to do if it fails. `diversity`, 0 to 1, is how much hits that are unlike those before them
    come first. With `group_by`, the answer has `limit` groups.
    """

    boost: Sequence[Boost] | None = None
    like: Sequence[str] | None = None
    unlike: Sequence[str] | None = None
    diversity: float | None = None
    group_by: GroupBy | None = None
    rerank: int | None = None
    on_error: OnRerankError | None = None

    @property
    def has_examples(self) -> bool:
        """Whether there are points to search near, or to stay away from."""
        return bool(self.like or self.unlike)

    def check_shape(self) -> None:
        """Refuse values of other types; the service knows the limits."""
        if self.boost is not None:
            check_items(self.boost, "boost", Boost)
        if self.diversity is not None:
            check_number(self.diversity, "diversity")
        if self.group_by is not None and not isinstance(self.group_by, GroupBy):
            raise InvalidArgumentError(f"group_by is a {type(self.group_by).__name__}: a GroupBy is needed")
        for name, ids in (("like", self.like), ("unlike", self.unlike)):
            if ids is not None:
                check_items(ids, name, object)
                for index, id in enumerate(ids):
                    check_text(id, f"{name}[{index}]")
        if self.rerank is not None:
            check_whole(self.rerank, "rerank")
        if self.on_error is not None:
            check_choice(self.on_error, ON_ERROR_RULES, "on_error")

    def json_of_shape(self) -> dict[str, Json]:
        """Return the JSON, without fields that are not given."""
        given: dict[str, Json] = {
            "boost": None if self.boost is None else [each.to_json() for each in self.boost],
            "like": None if self.like is None else list(self.like),
            "unlike": None if self.unlike is None else list(self.unlike),
            "diversity": encode_value(self.diversity, "diversity"),
            "group_by": self.group_by and {"path": self.group_by.path, "size": self.group_by.size},
            "rerank": self.rerank,
            "on_error": self.on_error,
        }
        return {name: value for name, value in given.items() if value is not None}
