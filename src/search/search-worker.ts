import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { collectGarbage } from '../base/runtime.ts'
import type { ThreadSetup } from '../graphs/engine-thread.ts'
import { Searcher } from '../index/searcher.ts'
import type { SegmentHandle } from '../index/segment.ts'
import { Doorbell, type FromSearchThread, type ToSearchThread } from './messages.ts'
import { type FilterWords, SearchRing } from './search-ring.ts'

/** A search thread: see messages.ts for its messages. */
const port = parentPort!
const { kernels, lane }: ThreadSetup = workerData
const searchers = new Map<number, Searcher>()
const filters = new Map<number, FilterWords>()
/** Whether an index was dropped whose memory must be freed. */
let hasDropped = false
let ring: SearchRing | undefined
let doorbell: Doorbell | undefined

port.on('message', (message: ToSearchThread) => {
  receive(message)
  if (ring !== undefined && doorbell !== undefined) serve(ring, doorbell)
})

function receive(message: ToSearchThread): void {
  switch (message.kind) {
    case 'start':
      ring = new SearchRing(message.ring)
      doorbell = new Doorbell(message.doorbell)
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

/**
 * Runs until the thread is terminated; the thread's event loop never runs again.
 *
 * The doorbell is delayed while more records wait. If every answer woke the main thread, it would take a processor from
 * the search threads each time, for one answer instead of several.
 */
function serve(ring: SearchRing, doorbell: Doorbell): never {
  let received = 0
  let done = 0
  let unannounced = 0
  for (;;) {
    const { bell, submitted } = ring
    // Read after `submitted`: a record never overtakes the message of a segment that it searches.
    for (; received !== ring.messages; received = (received + 1) | 0) {
      receive(receiveMessageOnPort(port)!.message)
    }
    if (hasDropped) {
      hasDropped = false
      collectGarbage()
    }
    if (done === submitted) {
      ring.sleep(bell)
      continue
    }
    const record = ring.recordAt(done)
    unannounced += ring.costOf(record)
    run(ring, record)
    done = (done + 1) | 0
    const next = done === ring.submitted ? Number.POSITIVE_INFINITY : ring.costOf(ring.recordAt(done))
    if (unannounced + next <= holdMicroseconds) continue
    doorbell.ring()
    unannounced = 0
  }
}

/** The longest time that completed records wait for others: five walks of the usual breadth. */
const holdMicroseconds = 600

function run(ring: SearchRing, record: number): void {
  try {
    const { index, queries, ranges } = ring.read(record, filters)
    const searcher = searchers.get(index)
    const hits = ring.hits(record)
    // An index that was detached meanwhile has no hits.
    searcher?.search(queries, ranges, () => ring.isCancelled(record), hits)
    ring.complete(record, hits, queries)
  } catch (error) {
    // In this order: when the message arrives, the record is completed.
    ring.complete(record, undefined)
    post({ kind: 'fault', error })
  }
}
