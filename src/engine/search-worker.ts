import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { Searcher } from '../index/searcher.ts'
import { collectGarbage } from './collect-garbage.ts'
import { Doorbell } from './doorbell.ts'
import type { DetachMessage, FromWorker, SegmentMessage, ToWorker, WorkerSetup } from './messages.ts'
import { SearchRing } from './search-ring.ts'

/** A search thread: see messages.ts for what it hears and says. */
const port = parentPort!
const { kernels, lane }: WorkerSetup = workerData
const searchers = new Map<number, Searcher>()
/** Whether something was dropped whose memory is still to be given back. */
let hasDropped = false
let ring: SearchRing | undefined
let doorbell: Doorbell | undefined

port.on('message', (message: ToWorker) => {
  hear(message)
  if (ring !== undefined && doorbell !== undefined) serve(ring, doorbell)
})

function hear(message: ToWorker): void {
  switch (message.kind) {
    case 'start':
      ring = new SearchRing(message.ring)
      doorbell = new Doorbell(message.doorbell)
      return
    case 'segment':
      attach(message)
      return
    case 'detach':
      detach(message)
  }
}

function attach({ index, segment }: SegmentMessage): void {
  const searcher = searchers.get(index) ?? new Searcher(kernels, lane)
  searchers.set(index, searcher)
  searcher.attach(segment)
}

function detach({ index }: DetachMessage): void {
  searchers.get(index)?.close()
  searchers.delete(index)
  hasDropped = true
  say({ kind: 'detached', index, left: searchers.size })
}

function say(message: FromWorker): void {
  port.postMessage(message)
}

/**
 * Runs until the thread is ended: the event loop of this thread does not turn any more.
 *
 * While there is more to do at once, the doorbell waits: the main thread, woken for each answer, would take a
 * processor from the search threads every time, and find one thing to do where it could have had several.
 */
function serve(ring: SearchRing, doorbell: Doorbell): never {
  let heard = 0
  let done = 0
  let unannounced = 0
  for (;;) {
    const { bell, submitted } = ring
    // After `submitted` was read: a record never overtakes the message of a segment that it searches.
    for (; heard !== ring.messages; heard += 1) hear(receiveMessageOnPort(port)!.message)
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

/** What is done waits no longer than this for company: five walks of the usual breadth. */
const holdMicroseconds = 600

function run(ring: SearchRing, record: number): void {
  try {
    const { index, queries, ranges } = ring.read(record)
    const searcher = searchers.get(index)
    const hits = searcher?.search(queries, ranges, () => ring.isCancelled(record))
    // An index that was detached meanwhile has nothing.
    ring.complete(record, hits ?? queries.map(() => []))
  } catch (error) {
    // In this order: whoever hears the message finds the record completed.
    ring.complete(record, undefined)
    say({ kind: 'fault', error })
  }
}
