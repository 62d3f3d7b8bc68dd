"""The blocking client."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import httpx

from . import (
    access_operations,
    collection_operations,
    evaluation,
    point_operations,
    search_operations,
    service_operations,
)
from .bulk import BATCH_POINTS, Batch, Keys, Progress, ProgressBar, batches_of, is_undecidable
from .clusters import Consistency, Session
from .columns import Columns
from .errors import InvalidArgumentError, VicinalError
from .exchange import Retry
from .filters import FilterLike
from .http_codec import headers_of
from .methods import documented
from .nodes import NodesTransport, NodeTransport, urls_in
from .operation import Operation, Place
from .points import USUAL_LISTED, Include, NewPoint, StoredPoint
from .snapshots import SnapshotInfo
from .target import Tls
from .transport import HttpTransport, Transport
from .version import VERSION

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _Runner(Protocol):
    @property
    def _place(self) -> Place: ...

    def _run(self, operation: Operation[Result]) -> Result: ...


def _blocking(
    operation: Callable[Concatenate[Place, Parameters], Operation[Result]],
) -> Callable[Concatenate[_Runner, Parameters], Result]:
    """Return a method that runs an operation; its parameters are the operation's fields."""

    def method(client: _Runner, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return client._run(operation(client._place, *args, **kwargs))

    return documented(method, operation)


class Vicinal:
    """
    A client for the points of one collection and for the collections themselves. Threads may share a client. A forked
    process has its own connections.

    :param url: `http://…` or `https://…`; with `vicinal[grpc]` installed also `grpc://host:port` or `grpcs://…`. A list
        of such addresses are nodes of one cluster: one is called until it fails, and then the next
    :param api_key: needed for gRPC, and for HTTP if the service has keys
    :param collection: name or alias of the collection; by default the collection `default`
    :param timeout_s: seconds to wait for a connection, and for each part of an answer
    :param retry: how failed requests are repeated
    :param consistency: how up to date the answers of a cluster must be, unless a call says otherwise. `session` (the
        default): at least everything that this client, and those that `collection` makes from it, have seen or written.
        `latest`: everything that was acknowledged before, to any client. `available`: whatever the node has
    :param headers: sent with every request over HTTP, for a proxy
    :param http_client: a client of httpx to use instead of own connections, for a proxy; the caller closes it
    :param tls: files for `https://` and `grpcs://`

    Every method raises a `VicinalError` if it fails.
    """

    def __init__(
        self,
        url: str | Sequence[str] = "http://127.0.0.1:3000",
        *,
        api_key: str | None = None,
        collection: str | None = None,
        timeout_s: float = 60.0,
        retry: Retry | None = None,
        consistency: Consistency | None = None,
        headers: Mapping[str, str] | None = None,
        http_client: httpx.Client | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._place = Place(collection)
        self._retry = retry or Retry()
        self._transport = _transport_of(url, api_key, timeout_s, consistency, headers, http_client, tls)

    insert = _blocking(point_operations.Insert)
    insert_batch = _blocking(point_operations.InsertBatch)
    insert_valid = _blocking(point_operations.InsertValid)
    get = _blocking(point_operations.Get)
    put = _blocking(point_operations.Put)
    patch = _blocking(point_operations.Patch)
    delete = _blocking(point_operations.Delete)
    search = _blocking(search_operations.Search)
    search_batch = _blocking(search_operations.SearchBatch)
    list_points = _blocking(search_operations.ListPoints)
    count = _blocking(search_operations.Count)
    facets = _blocking(search_operations.Facets)
    evaluate = _blocking(evaluation.Evaluate)
    update_where = _blocking(search_operations.UpdateWhere)
    delete_where = _blocking(search_operations.DeleteWhere)
    health = _blocking(service_operations.Health)
    ready = _blocking(service_operations.Ready)
    metrics = _blocking(service_operations.Metrics)
    stats = _blocking(service_operations.Stats)
    slow_queries = _blocking(service_operations.SlowQueries)
    settings = _blocking(service_operations.Settings)
    audit = _blocking(access_operations.Audit)

    @property
    def collections(self) -> Collections:
        """The operations on collections."""
        return Collections(self)

    @property
    def keys(self) -> ApiKeys:
        """The operations on keys, for callers with the role `admin`."""
        return ApiKeys(self)

    def collection(self, name: str) -> Vicinal:
        """Return a client for the points of another collection, by name or alias, over the same connections."""
        other = object.__new__(Vicinal)
        other._place = Place(name)
        other._retry = self._retry
        other._transport = self._transport
        return other

    def iterate(
        self,
        filter: FilterLike | None = None,
        *,
        page_size: int = 1_000,
        include: Include | None = USUAL_LISTED,
        consistency: Consistency | None = None,
    ) -> Iterator[StoredPoint]:
        """
        Iterate over all matching points in the order of their insertion, page by page. A point that stays stored
        meanwhile is yielded exactly once.

        For clusters, `consistency` is that of `list_points`, for each page.
        """
        cursor: str | None = None
        while True:
            page = self.list_points(
                filter,
                limit=page_size,
                cursor=cursor,
                include=include,
                consistency=consistency,
            )
            yield from page.points
            cursor = page.next_cursor
            if cursor is None:
                return

    def bulk_insert(
        self,
        points: Columns | Iterable[NewPoint],
        *,
        batch_size: int = BATCH_POINTS,
        concurrency: int = 4,
        key_prefix: str | None = None,
        progress: Progress = False,
    ) -> Iterator[list[str]]:
        """
        Insert any number of points; yields the ids of each batch when it is stored, in the order of the points. Each
        batch is stored as a whole or not at all. Nothing happens before the first step of the iteration; to insert all
        points with one call, use `insert_all`.

        In a cluster, if an id exists that must not, the other points of its batch are stored, and the key of the batch
        is used up: to go on, use another prefix, and `on_conflict="skip"`.

        Points with the same id are stored in their order: with `on_conflict="replace"`, the last one stays. Other
        points of concurrent batches are stored in any order; `concurrency=1` keeps the order for lists. An error names
        a point by its index among all points.

        :param concurrency: maximum number of concurrent batches; points are only read for these batches
        :param key_prefix: makes it safe to repeat an interrupted import, with the same points, within a day
        :param progress: True for a progress bar (needs tqdm), or a function that receives the number of points just
            stored
        """
        keys = Keys(key_prefix)
        running: deque[tuple[Batch, Future[list[str]]]] = deque()

        def first_ids() -> list[str]:
            batch, insertion = running.popleft()
            try:
                return bar.counted(insertion.result())
            except VicinalError as error:
                raise batch.named(error) from error

        is_cluster = False

        def store(batch: Batch, key: str) -> list[str]:
            nonlocal is_cluster
            if not (is_cluster and batch.may_be_refused):
                try:
                    return self.insert_batch(batch.points, idempotency_key=key)
                except InvalidArgumentError as error:
                    if not is_undecidable(error):
                        raise
                # A repetition with a prefix must send each batch as it was sent before.
                is_cluster = key_prefix is None
            return self.insert_valid(batch.points, idempotency_key=key).all_ids()

        with ProgressBar(progress, points) as bar, ThreadPoolExecutor(concurrency) as threads:
            try:
                for batch in batches_of(points, batch_size):
                    # A later point with the same id must be stored later.
                    while not all(batch.ids.isdisjoint(other.ids) for other, _ in running):
                        yield first_ids()
                    insertion = threads.submit(store, batch, keys.next())
                    running.append((batch, insertion))
                    if len(running) >= concurrency:
                        yield first_ids()
                while running:
                    yield first_ids()
            finally:
                threads.shutdown(cancel_futures=True)

    def insert_all(
        self,
        points: Columns | Iterable[NewPoint],
        *,
        batch_size: int = BATCH_POINTS,
        concurrency: int = 4,
        key_prefix: str | None = None,
        progress: Progress = False,
    ) -> list[str]:
        """Insert any number of points and return their ids, as `bulk_insert` does."""
        batches = self.bulk_insert(
            points, batch_size=batch_size, concurrency=concurrency, key_prefix=key_prefix, progress=progress
        )
        return [id for ids in batches for id in ids]

    def snapshot(self, path: str | os.PathLike[str], *, consistency: Consistency | None = None) -> SnapshotInfo:
        """
        Download all points of the collection, as they are at one moment, to a file for `vicinal snapshot restore`. The
        file appears when it is complete. `consistency` is how up to date that moment must be on a node of a cluster.
        """
        return self._transport.download(f"{self._place.path}/snapshots", Path(path), self._retry, consistency)

    def close(self) -> None:
        """Close the connections, for this client and for all clients that share them."""
        self._transport.close()

    def __enter__(self) -> Vicinal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, operation: Operation[Result]) -> Result:
        return self._transport.run(operation, self._retry)


class Collections:
    """The collections of a service, and their aliases."""

    def __init__(self, client: Vicinal) -> None:
        self._place = Place()
        self._client = client

    list = _blocking(collection_operations.ListCollections)
    get = _blocking(collection_operations.GetCollection)
    put = _blocking(collection_operations.PutCollection)
    delete = _blocking(collection_operations.DeleteCollection)
    set_aliases = _blocking(collection_operations.SetAliases)

    def _run(self, operation: Operation[Result]) -> Result:
        return self._client._run(operation)


class ApiKeys:
    """The keys of the file that `API_KEYS_FILE` names."""

    def __init__(self, client: Vicinal) -> None:
        self._place = Place()
        self._client = client

    create = _blocking(access_operations.CreateKey)
    list = _blocking(access_operations.ListKeys)
    revoke = _blocking(access_operations.RevokeKey)

    def _run(self, operation: Operation[Result]) -> Result:
        return self._client._run(operation)


def _transport_of(
    url: str | Sequence[str],
    api_key: str | None,
    timeout_s: float,
    consistency: Consistency | None,
    headers: Mapping[str, str] | None,
    http_client: httpx.Client | None,
    tls: Tls | None,
) -> Transport:
    session = Session(consistency)
    nodes = [_node_of(one, api_key, timeout_s, session, headers, http_client, tls) for one in urls_in(url)]
    return nodes[0] if len(nodes) == 1 else NodesTransport(nodes)


def _node_of(
    url: str,
    api_key: str | None,
    timeout_s: float,
    session: Session,
    headers: Mapping[str, str] | None,
    http_client: httpx.Client | None,
    tls: Tls | None,
) -> NodeTransport:
    if not url.startswith(("grpc://", "grpcs://")):
        return HttpTransport(url, headers_of(api_key, headers, VERSION), timeout_s, http_client, session, tls)
    try:
        from .grpc.transport import GrpcTransport
    except ImportError as error:
        raise ImportError(f"{url} needs grpcio: pip install 'vicinal[grpc]'") from error
    return GrpcTransport(url, api_key, timeout_s, session, tls)
