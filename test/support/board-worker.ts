import { workerData } from 'node:worker_threads'
import { Board } from '../../src/search/board.ts'
import { PoolState } from '../../src/search/messages.ts'

/**
 * Takes and completes the work of a board until the thread is terminated, and counts how often each place is taken.
 * Sleeps while there is none.
 */
const {
  board: buffer,
  pool: state,
  taken: counts,
  lane,
} = workerData as {
  readonly board: SharedArrayBuffer
  readonly pool: SharedArrayBuffer
  readonly taken: SharedArrayBuffer
  readonly lane: number
}
const board = new Board(buffer)
const pool = new PoolState(state)
const taken = new Int32Array(counts)
for (;;) {
  const { bell } = pool
  const place = board.take(lane)
  if (place === undefined) {
    pool.sleep(bell)
    continue
  }
  Atomics.add(taken, place, 1)
  board.complete(place, board.hits(place))
}
