import { workerData } from 'node:worker_threads'
import { Board } from '../../src/search/board.ts'

/** Takes and completes the work of a board until the thread is terminated, and counts how often each place is taken. */
const {
  board: buffer,
  taken: counts,
  lane,
} = workerData as {
  readonly board: SharedArrayBuffer
  readonly taken: SharedArrayBuffer
  readonly lane: number
}
const board = new Board(buffer)
const taken = new Int32Array(counts)
for (;;) {
  const place = board.take(lane)
  if (place === undefined) continue
  Atomics.add(taken, place, 1)
  board.complete(place, board.hits(place))
}
