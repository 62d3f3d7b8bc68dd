import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { collectGarbage } from '../base/runtime.ts'
import type { ThreadSetup } from '../graphs/engine-thread.ts'
import { Searcher } from '../index/searcher.ts'
import type { SegmentHandle } from '../index/segment.ts'
import { Board, type FilterWords } from './board.ts'
import { type FromSearchThread, PoolState, type ToSearchThread } from './messages.ts'

/** A search thread: see messages.ts for its messages. */
const port = parentPort!
const { kernels, lane }: ThreadSetup = workerData
const searchers = new Map<number, Searcher>()
const filters = new Map<number, FilterWords>()
/** By the number of their owner. */
const boards = new Map<number, Board>()
/** Whether an index was dropped whose memory must be freed. */
let hasDropped = false

port.on('message', (message: ToSearchThread) => {
  if (message.kind === 'start') serve(new PoolState(message.pool), message.received)
})

function receive(message: ToSearchThread): void {
  switch (message.kind) {
    case 'board':
      boards.set(message.owner, new Board(message.board))
      return
    case 'segment':
      attach(message.index, message.segment)
      return
    case 'filter':
      filters.set(message.filter, new Uint32Array(message.words))
      return
    case 'drop-filter':
      filters.delete(message.filter)
      return
    case 'detach':
      detach(message.index)
  }
}

function attach(index: number, segment: SegmentHandle): void {
  const searcher = searchers.get(index) ?? new Searcher(kernels, lane)
  searchers.set(index, searcher)
  searcher.attach(segment)
}

function detach(index: number): void {
  searchers.get(index)?.close()
  searchers.delete(index)
  hasDropped = true
  post({ kind: 'detached', index, left: searchers.size })
}

function post(message: FromSearchThread): void {
  port.postMessage(message)
}

interface Taken {
  readonly board: Board
  readonly place: number
}

/**
 * Runs until the thread is terminated; the thread's event loop never runs again.
 *
 * An owner's bell is delayed while there is more work of it. If every answer woke the owner, it would take a processor
 * from the search threads each time, for one answer instead of several.
 */
function serve(pool: PoolState, former: number): never {
  let received = former
  let unannounced: { readonly board: Board; readonly cost: number } | undefined
  for (;;) {
    const { bell } = pool
    const taken = take()
    const known = received
    // After taking: work never overtakes the message of a segment that it searches.
    for (; received !== pool.messages(lane); received = (received + 1) | 0) {
      receive(receiveMessageOnPort(port)!.message)
    }
    if (hasDropped) {
      hasDropped = false
      collectGarbage()
    }
    const cost = taken?.board.costOf(taken.place) ?? 0
    if (unannounced !== undefined) {
      const isHeld = taken?.board === unannounced.board && unannounced.cost + cost <= holdMicroseconds
      if (!isHeld) {
        unannounced.board.bell.ring()
        unannounced = undefined
      }
    }
    if (taken !== undefined) {
      run(taken)
      pool.countPiece(lane)
      unannounced = { board: taken.board, cost: (unannounced?.cost ?? 0) + cost }
      // A board that was announced has perhaps had work for a while.
    } else if (received === known) pool.sleep(bell)
  }
}

/** The longest time that completed records wait for others: five walks of the usual breadth. */
const holdMicroseconds = 600

/** Takes the oldest work of a board. Boards take turns. */
function take(): Taken | undefined {
  for (const [owner, board] of boards) {
    const place = board.take(lane)
    if (place === undefined) continue
    boards.delete(owner)
    boards.set(owner, board)
    return { board, place }
  }
  return undefined
}

function run({ board, place }: Taken): void {
  try {
    const work = board.read(place, filters)
    const searcher = work && searchers.get(work.index)
    if (searcher === undefined) {
      board.giveUp(place)
      return
    }
    const hits = board.hits(place)
    searcher.search(work!.queries, work!.ranges, () => board.isCancelled(place), hits)
    board.complete(place, hits, work!.queries)
  } catch (error) {
    board.fail(place, error)
  }
}
