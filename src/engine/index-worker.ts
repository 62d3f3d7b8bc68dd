import { readlinkSync } from 'node:fs'
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { auditRoutes } from '../index/audit.ts'
import { loadGraph, saveGraph } from '../index/graph-file.ts'
import { GraphState, slotStates } from '../index/graph-state.ts'
import { Searcher } from '../index/searcher.ts'
import type { SegmentHandle } from '../index/segment.ts'
import { Slots } from '../index/slots.ts'
import { instantiateKernels } from '../kernels/wasm-module.ts'
import { readRows } from '../storage/row-reader.ts'
import { writePagedId } from './id-table.ts'
import type {
  FilledSlots,
  FromIndexWorker,
  IndexWorkerSetup,
  LoadedGraph,
  Task,
  TaskResults,
  ToIndexWorker,
} from './index-messages.ts'
import { stopRanges, takeRanges } from './shared-ranges.ts'

/** An index thread: see index-messages.ts for what it hears and says. */
const port = parentPort!
const { kernels, lane }: IndexWorkerSetup = workerData
const searcher = new Searcher(kernels, lane)
const segments: SegmentHandle[] = []
const fillers: Slots[] = []
yieldToSearches()

port.on('message', (message: ToIndexWorker) => {
  if (message.kind === 'segment') {
    segments[message.segment.ordinal] = message.segment
    searcher.attach(message.segment)
    return
  }
  answer(message)
})

function answer(task: Task): void {
  let message: FromIndexWorker
  try {
    message = { kind: 'result', result: perform(task) }
  } catch (error) {
    message = { kind: 'fault', error }
  }
  port.postMessage(message)
}

function perform(task: Task): TaskResults[keyof TaskResults]['result'] {
  if (task.kind === 'audit') {
    return auditRoutes(searcher, segments, task, () => Atomics.load(task.stop, 0) === 1)
  }
  const segment = segments[task.ordinal]!
  if (task.kind === 'fill') return fill(segment, task)
  const thread = searcher.graph(task.ordinal, task.graph)
  switch (task.kind) {
    case 'link':
      thread.link(task.slots)
      return undefined
    case 'repair':
      thread.repair(task.from, task.to)
      return undefined
    case 'release':
      thread.release()
      return undefined
    case 'adopt':
      return thread.adoptUnreached()
    case 'save':
      saveGraph(segment, task.graph, task.path, task.meta)
      return undefined
    case 'load':
      return load(segment, task.graph, task.path)
  }
}

function fill(segment: SegmentHandle, { rows, slots: ranges, ids }: Task<'fill'>): FilledSlots {
  const { firstSlot } = segment
  const slots = slotsOf(segment)
  let points = 0
  try {
    for (const { from, to } of takeRanges(ranges)) {
      readRows(rows, from, to, ({ slot, id, sequence, vector }) => {
        writePagedId(ids, slot, id)
        slots.fill(slot - firstSlot, vector, sequence)
        // While the row is at hand: a graph that is read from disk is walked by codes.
        slots.encode(slot - firstSlot)
        points += 1
      })
    }
    return { points }
  } catch (error) {
    stopRanges(ranges)
    return { points, fault: messageOf(error) }
  }
}

function slotsOf(segment: SegmentHandle): Slots {
  const { ordinal, memory } = segment
  fillers[ordinal] ??= new Slots(segment, instantiateKernels(kernels, memory), lane)
  return fillers[ordinal]
}

function load(segment: SegmentHandle, graph: number, path: string): LoadedGraph | undefined {
  try {
    const meta = loadGraph(segment, graph, path)
    if (meta === undefined) return undefined
    const { states, slotCount } = new GraphState(segment, graph)
    const count = { linked: 0, leaving: 0 }
    for (let slot = 0; slot < slotCount; slot += 1) {
      if (states[slot] === slotStates.linked) count.linked += 1
      if (states[slot] !== slotStates.leaving) continue
      count.leaving += 1
      // Searches go through it until it is repaired around, though nothing has filled it.
      slotsOf(segment).encode(slot)
    }
    return { meta, ...count }
  } catch (error) {
    return { meta: { sequence: 0, routes: [] }, fault: messageOf(error), linked: 0, leaving: 0 }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Linux keeps a priority for each thread; elsewhere index threads simply share the cores. */
function yieldToSearches(): void {
  try {
    setPriority(Number(readlinkSync('/proc/thread-self').split('/').at(-1)), 10)
  } catch {
    // No such file or not allowed: the priority is a courtesy, nothing depends on it.
  }
}
