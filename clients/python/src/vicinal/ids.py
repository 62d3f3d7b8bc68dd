"""Ids of points are UUIDs; ids of other systems can be any text."""

from __future__ import annotations

import uuid

_NAMESPACE = uuid.UUID("7d6b0f0e-6f9c-5b0a-9a55-3f1d5f0c2f6e")


def uuid_of(text: str) -> str:
    """Return a point id for any text. A UUID is returned in lower case; another text always maps to the same UUID."""
    try:
        # Only the usual form counts as a UUID: `uuid.UUID` also accepts braces and URNs, which would get the same id.
        parsed = str(uuid.UUID(text))
    except ValueError:
        parsed = None
    return parsed if parsed is not None and parsed == text.lower() else str(uuid.uuid5(_NAMESPACE, text))
