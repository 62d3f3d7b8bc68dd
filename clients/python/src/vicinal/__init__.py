"""
A client of Vicinal, the vector database.

    from vicinal import F, Vicinal

    with Vicinal("http://127.0.0.1:3000") as client:
        client.insert([0.1, 0.2, 0.3], "a small fox", attributes={"legs": 4})
        for hit in client.search([0.1, 0.2, 0.3], "Cosine", filter=F("legs") == 4).hits:
            print(hit.distance, hit.content)
"""

from .access_operations import AuditPage, AuditRecord, CreatedKey, KeyInfo, Role
from .answer_shape import Boost, GroupBy, OnRerankError, Recent
from .async_client import AsyncApiKeys, AsyncCollections, AsyncVicinal
from .client import ApiKeys, Collections, Vicinal
from .clusters import Consistency
from .collection_operations import CollectionInfo, Hnsw, PutCollectionResult, Quotas, Words
from .columns import Columns
from .errors import (
    AlreadyExistsError,
    ClosedError,
    CollectionNotFoundError,
    ConnectionFailedError,
    CursorExpiredError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    KeyReusedError,
    MisdirectedError,
    NotFoundError,
    NotReadyError,
    OverloadedError,
    PermissionDeniedError,
    PreconditionFailedError,
    QuotaExceededError,
    RequestTooLargeError,
    RerankUnavailableError,
    StorageFullError,
    UnauthenticatedError,
    UnsupportedError,
    VicinalError,
)
from .evaluation import EvaluatedPoints, Evaluation, Judgement, MeasuredSetting, Relevance
from .exchange import NO_RETRY, Retry
from .filters import F, Filter, FilterLike
from .ids import uuid_of
from .point_operations import ItemError, PartlyInserted, PutResult
from .points import (
    ContentType,
    Highlight,
    Hit,
    HitGroup,
    IfAbsent,
    IfMatches,
    IfVersion,
    Include,
    Metric,
    NewPoint,
    OnConflict,
    Point,
    Profile,
    ProfileStep,
    Query,
    SearchResult,
    StoredPoint,
    When,
)
from .search_operations import Changed, FacetCount, Page
from .snapshots import SnapshotInfo
from .target import Tls
from .values import Attributes, AttributeValue, GeoPoint, Scalar
from .vectors import MatrixLike, Text, Vector, VectorLike
from .version import VERSION as __version__  # noqa: N811

__all__ = [
    "NO_RETRY",
    "AlreadyExistsError",
    "ApiKeys",
    "AsyncApiKeys",
    "AsyncCollections",
    "AsyncVicinal",
    "AttributeValue",
    "Attributes",
    "AuditPage",
    "AuditRecord",
    "Boost",
    "Changed",
    "ClosedError",
    "CollectionInfo",
    "CollectionNotFoundError",
    "Collections",
    "Columns",
    "ConnectionFailedError",
    "Consistency",
    "ContentType",
    "CreatedKey",
    "CursorExpiredError",
    "DeadlineExceededError",
    "EvaluatedPoints",
    "Evaluation",
    "F",
    "FacetCount",
    "Filter",
    "FilterLike",
    "GeoPoint",
    "GroupBy",
    "Highlight",
    "Hit",
    "HitGroup",
    "Hnsw",
    "IfAbsent",
    "IfMatches",
    "IfVersion",
    "Include",
    "InternalError",
    "InvalidArgumentError",
    "ItemError",
    "Judgement",
    "KeyInfo",
    "KeyReusedError",
    "MatrixLike",
    "MeasuredSetting",
    "Metric",
    "MisdirectedError",
    "NewPoint",
    "NotFoundError",
    "NotReadyError",
    "OnConflict",
    "OnRerankError",
    "OverloadedError",
    "Page",
    "PartlyInserted",
    "PermissionDeniedError",
    "Point",
    "PreconditionFailedError",
    "Profile",
    "ProfileStep",
    "PutCollectionResult",
    "PutResult",
    "Query",
    "QuotaExceededError",
    "Quotas",
    "Recent",
    "Relevance",
    "RequestTooLargeError",
    "RerankUnavailableError",
    "Retry",
    "Role",
    "Scalar",
    "SearchResult",
    "SnapshotInfo",
    "StorageFullError",
    "StoredPoint",
    "Text",
    "Tls",
    "UnauthenticatedError",
    "UnsupportedError",
    "Vector",
    "VectorLike",
    "Vicinal",
    "VicinalError",
    "When",
    "Words",
    "__version__",
    "uuid_of",
]
