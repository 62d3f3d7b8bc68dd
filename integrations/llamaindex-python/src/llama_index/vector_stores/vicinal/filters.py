"""Converts LlamaIndex's metadata filters to Vicinal's filters."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
)

from vicinal import F, Filter, FilterLike, uuid_of


def filter_of(
    metadata: MetadataFilters | None, node_ids: Sequence[str] | None = None, doc_ids: Sequence[str] | None = None
) -> FilterLike | None:
    """Return a filter for everything that is given; None if nothing is given."""
    parts: list[FilterLike] = [] if metadata is None or not metadata.filters else [_joined(metadata)]
    if node_ids is not None:
        parts.append(F("$id").any_of([uuid_of(id) for id in node_ids]))
    if doc_ids is not None:
        parts.append(F("ref_doc_id").any_of(doc_ids))
    return {"$and": parts} if parts else None


def filter_of_query(query: VectorStoreQuery) -> FilterLike | None:
    """Return the filter of a query. Empty lists of ids mean no restriction, as in LlamaIndex."""
    return filter_of(query.filters, query.node_ids or None, query.doc_ids or None)


def _joined(metadata: MetadataFilters) -> FilterLike:
    parts = [_joined(each) if isinstance(each, MetadataFilters) else _one(each) for each in metadata.filters]
    match metadata.condition:
        case FilterCondition.OR:
            return {"$or": parts}
        case FilterCondition.NOT:
            # As in LlamaIndex's own store, NOT means that none of the filters matches.
            return {"$not": {"$or": parts}}
    return {"$and": parts}


def _one(each: MetadataFilter) -> Filter:
    field, value = F(each.key), each.value
    if each.operator == FilterOperator.IS_EMPTY:
        # Empty lists and None are not stored, so an empty value is absent.
        return ~field.exists() | (field == "")
    values = value if isinstance(value, list) else [] if value is None else [value]
    match each.operator:
        case FilterOperator.IN | FilterOperator.ANY:
            return field.any_of(values)
        case FilterOperator.NIN:
            return field.none_of(values)
        case FilterOperator.ALL:
            return field.all_of(values)
    if isinstance(value, list):
        raise ValueError(f"{each.key} {each.operator.value} needs a single value, not a list")
    match each.operator:
        case FilterOperator.EQ | FilterOperator.CONTAINS:
            return field == value
        case FilterOperator.NE:
            return field != value
    if value is None:
        raise ValueError(f"{each.key} {each.operator.value} needs a value")
    match each.operator:
        case FilterOperator.GT:
            return field > value
        case FilterOperator.GTE:
            return field >= value
        case FilterOperator.LT:
            return field < value
        case FilterOperator.LTE:
            return field <= value
    raise ValueError(f"Vicinal has no filter like {each.operator.value}")
