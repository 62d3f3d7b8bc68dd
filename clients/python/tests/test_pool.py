"""Which connections the pool keeps for the next request."""

from __future__ import annotations

from vicinal.pool import Pool


class Connection:
    """A connection that does nothing."""

    def __init__(self, pool: Pool[Connection]) -> None:
        self.is_reusable = True
        self.is_readable = False
        self.is_closed = False
        pool.add(self)

    def close(self) -> None:
        self.is_closed = True


def test_the_connection_used_last_is_taken_first() -> None:
    pool: Pool[Connection] = Pool()
    connections = [Connection(pool) for _ in range(3)]
    for connection in connections:
        pool.put_back(connection)
    assert [pool.take() for _ in range(4)] == [*reversed(connections), None]


def test_a_connection_that_ended_is_closed() -> None:
    pool: Pool[Connection] = Pool()
    unread, ended, usable = (Connection(pool) for _ in range(3))
    unread.is_reusable = False
    for connection in (usable, unread, ended):
        pool.put_back(connection)
    ended.is_readable = True
    assert pool.take() is usable
    assert [connection.is_closed for connection in (unread, ended, usable)] == [True, True, False]


def test_connections_that_are_idle_for_long_are_closed() -> None:
    now = [100.0]
    pool: Pool[Connection] = Pool(lambda: now[0])
    idle, busy = Connection(pool), Connection(pool)
    pool.put_back(idle)
    now[0] += 5.1
    pool.put_back(busy)
    assert idle.is_closed
    now[0] += 5.1
    assert pool.take() is None
    assert busy.is_closed


def test_a_few_idle_connections_are_kept() -> None:
    pool: Pool[Connection] = Pool()
    connections = [Connection(pool) for _ in range(25)]
    for connection in connections:
        pool.put_back(connection)
    assert [connection.is_closed for connection in connections] == [True] * 5 + [False] * 20


def test_after_a_fork_no_lock_is_awaited_and_no_connection_is_used() -> None:
    pool: Pool[Connection] = Pool()
    idle, used = Connection(pool), Connection(pool)
    pool.put_back(idle)
    # A thread of the parent process.
    pool._lock.acquire()
    pool.after_fork()
    assert pool.take() is None
    assert idle.is_closed
    assert used.is_closed
    pool.put_back(Connection(pool))
    assert pool.take() is not None


def test_a_closed_pool_closes_what_is_idle_in_use_and_new() -> None:
    pool: Pool[Connection] = Pool()
    idle, used = Connection(pool), Connection(pool)
    pool.put_back(idle)
    pool.close()
    new = Connection(pool)
    pool.put_back(used)
    assert idle.is_closed
    assert used.is_closed
    assert new.is_closed
    assert pool.take() is None
