"""The async client."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
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
from .async_transport import AsyncHttpTransport, AsyncTransport
from .bulk import BATCH_POINTS, Batch, Batcher, Keys, Progress, ProgressBar, batches_of, is_undecidable
from .clusters import Consistency, Session
from .columns import Columns
from .errors import InvalidArgumentError, VicinalError
from .exchange import Retry
from .filters import FilterLike
from .http_codec import headers_of
from .methods import documented
from .nodes import AsyncNodesTransport, AsyncNodeTransport, urls_in
from .operation import Operation, Place
from .points import USUAL_LISTED, Include, NewPoint, StoredPoint
from .snapshots import SnapshotInfo
from .target import Tls
from .version import VERSION

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _Runner(Protocol):
    @property
    def _place(self) -> Place: ...

    async def _run(self, operation: Operation[Result]) -> Result: ...


def _awaiting(
    operation: Callable[Concatenate[Place, Parameters], Operation[Result]],
) -> Callable[Concatenate[_Runner, Parameters], Awaitable[Result]]:
    """Return an async method that runs an operation; its parameters are the operation's fields."""

    async def method(client: _Runner, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return await client._run(operation(client._place, *args, **kwargs))

    return documented(method, operation)


class AsyncVicinal:
    """
    A client for the points of one collection and for the collections themselves. Each event loop of asyncio, and each
    forked process, has its own connections; an `http_client` is for one loop.

    The parameters are those of `Vicinal`. Cancelling a task cancels its request; a change may have taken effect.
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
        http_client: httpx.AsyncClient | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._place = Place(collection)
        self._retry = retry or Retry()
        self._transport = _transport_of(url, api_key, timeout_s, consistency, headers, http_client, tls)

    insert = _awaiting(point_operations.Insert)
    insert_batch = _awaiting(point_operations.InsertBatch)
    insert_valid = _awaiting(point_operations.InsertValid)
    get = _awaiting(point_operations.Get)
    put = _awaiting(point_operations.Put)
    patch = _awaiting(point_operations.Patch)
    delete = _awaiting(point_operations.Delete)
    search = _awaiting(search_operations.Search)
    search_batch = _awaiting(search_operations.SearchBatch)
    list_points = _awaiting(search_operations.ListPoints)
    count = _awaiting(search_operations.Count)
    facets = _awaiting(search_operations.Facets)
    evaluate = _awaiting(evaluation.Evaluate)
    update_where = _awaiting(search_operations.UpdateWhere)
    delete_where = _awaiting(search_operations.DeleteWhere)
    health = _awaiting(service_operations.Health)
    ready = _awaiting(service_operations.Ready)
    metrics = _awaiting(service_operations.Metrics)
    stats = _awaiting(service_operations.Stats)
    slow_queries = _awaiting(service_operations.SlowQueries)
    settings = _awaiting(service_operations.Settings)
    audit = _awaiting(access_operations.Audit)

    @property
    def collections(self) -> AsyncCollections:
        """The operations on collections."""
        return AsyncCollections(self)

    @property
    def keys(self) -> AsyncApiKeys:
        """The operations on keys, for callers with the role `admin`."""
        return AsyncApiKeys(self)

    def collection(self, name: str) -> AsyncVicinal:
        """Return a client for the points of another collection, by name or alias, over the same connections."""
        other = object.__new__(AsyncVicinal)
        other._place = Place(name)
        other._retry = self._retry
        other._transport = self._transport
        return other

    async def iterate(
        self,
        filter: FilterLike | None = None,
        *,
        page_size: int = 1_000,
        include: Include | None = USUAL_LISTED,
        consistency: Consistency | None = None,
    ) -> AsyncIterator[StoredPoint]:
        """
        Iterate over all matching points in the order of their insertion, page by page. A point that stays stored
        meanwhile is yielded exactly once.

        For clusters, `consistency` is that of `list_points`, for each page.
        """
        cursor: str | None = None
        while True:
            page = await self.list_points(
                filter,
                limit=page_size,
                cursor=cursor,
                include=include,
                consistency=consistency,
            )
            for point in page.points:
                yield point
            cursor = page.next_cursor
            if cursor is None:
                return

    async def bulk_insert(
        self,
        points: Columns | Iterable[NewPoint] | AsyncIterable[NewPoint],
        *,
        batch_size: int = BATCH_POINTS,
        concurrency: int = 4,
        key_prefix: str | None = None,
        progress: Progress = False,
    ) -> AsyncIterator[list[str]]:
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
        running: deque[tuple[Batch, asyncio.Future[list[str]]]] = deque()

        async def first_ids() -> list[str]:
            batch, insertion = running.popleft()
            try:
                return bar.counted(await insertion)
            except VicinalError as error:
                raise batch.named(error) from error

        is_cluster = False

        async def store(batch: Batch, key: str) -> list[str]:
            nonlocal is_cluster
            if not (is_cluster and batch.may_be_refused):
                try:
                    return await self.insert_batch(batch.points, idempotency_key=key)
                except InvalidArgumentError as error:
                    if not is_undecidable(error):
                        raise
                # A repetition with a prefix must send each batch as it was sent before.
                is_cluster = key_prefix is None
            return (await self.insert_valid(batch.points, idempotency_key=key)).all_ids()

        with ProgressBar(progress, points) as bar:
            try:
                async for batch in _batches(points, batch_size):
                    # A later point with the same id must be stored later.
                    while not all(batch.ids.isdisjoint(other.ids) for other, _ in running):
                        yield await first_ids()
                    running.append((batch, asyncio.ensure_future(store(batch, keys.next()))))
                    if len(running) >= concurrency:
                        yield await first_ids()
                while running:
                    yield await first_ids()
            finally:
                for _, insertion in running:
                    insertion.cancel()
                await asyncio.gather(*(insertion for _, insertion in running), return_exceptions=True)

    async def insert_all(
        self,
        points: Columns | Iterable[NewPoint] | AsyncIterable[NewPoint],
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
        return [id async for ids in batches for id in ids]

    async def snapshot(self, path: str | os.PathLike[str], *, consistency: Consistency | None = None) -> SnapshotInfo:
        """
        Download all points of the collection, as they are at one moment, to a file for `vicinal snapshot restore`. The
        file appears when it is complete. `consistency` is how up to date that moment must be on a node of a cluster.
        """
        return await self._transport.download(f"{self._place.path}/snapshots", Path(path), self._retry, consistency)

    async def close(self) -> None:
        """Close the connections, for this client and for all clients that share them."""
        await self._transport.close()

    async def __aenter__(self) -> AsyncVicinal:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, operation: Operation[Result]) -> Result:
        return await self._transport.run(operation, self._retry)


class AsyncCollections:
    """The collections of a service, and their aliases."""

    def __init__(self, client: AsyncVicinal) -> None:
        self._place = Place()
        self._client = client

    list = _awaiting(collection_operations.ListCollections)
    get = _awaiting(collection_operations.GetCollection)
    put = _awaiting(collection_operations.PutCollection)
    delete = _awaiting(collection_operations.DeleteCollection)
    set_aliases = _awaiting(collection_operations.SetAliases)

    async def _run(self, operation: Operation[Result]) -> Result:
        return await self._client._run(operation)


class AsyncApiKeys:
    """The keys of the file that `API_KEYS_FILE` names."""

    def __init__(self, client: AsyncVicinal) -> None:
        self._place = Place()
        self._client = client

    create = _awaiting(access_operations.CreateKey)
    list = _awaiting(access_operations.ListKeys)
    revoke = _awaiting(access_operations.RevokeKey)

    async def _run(self, operation: Operation[Result]) -> Result:
        return await self._client._run(operation)


async def _batches(
    points: Columns | Iterable[NewPoint] | AsyncIterable[NewPoint], points_max: int
) -> AsyncIterator[Batch]:
    if not isinstance(points, AsyncIterable):
        for batch in batches_of(points, points_max):
            yield batch
        return
    batcher = Batcher(points_max)
    async for point in points:
        full = batcher.add(point)
        if full is not None:
            yield full
    rest = batcher.rest()
    if rest is not None:
        yield rest


def _transport_of(
    url: str | Sequence[str],
    api_key: str | None,
    timeout_s: float,
    consistency: Consistency | None,
    headers: Mapping[str, str] | None,
    http_client: httpx.AsyncClient | None,
    tls: Tls | None,
) -> AsyncTransport:
    session = Session(consistency)
    nodes = [_node_of(one, api_key, timeout_s, session, headers, http_client, tls) for one in urls_in(url)]
    return nodes[0] if len(nodes) == 1 else AsyncNodesTransport(nodes)


def _node_of(
    url: str,
    api_key: str | None,
    timeout_s: float,
    session: Session,
    headers: Mapping[str, str] | None,
    http_client: httpx.AsyncClient | None,
    tls: Tls | None,
) -> AsyncNodeTransport:
    if not url.startswith(("grpc://", "grpcs://")):
        return AsyncHttpTransport(url, headers_of(api_key, headers, VERSION), timeout_s, http_client, session, tls)
    try:
        from .grpc.transport import AsyncGrpcTransport
    except ImportError as error:
        raise ImportError(f"{url} needs grpcio: pip install 'vicinal[grpc]'") from error
    return AsyncGrpcTransport(url, api_key, timeout_s, session, tls)
