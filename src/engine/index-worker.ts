import { readlinkSync } from 'node:fs'
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { unreachableSlots } from '../index/graph-check.ts'
import { loadGraph, saveGraph } from '../index/graph-file.ts'
import { GraphState, slotStates } from '../index/graph-state.ts'
import { checkMeasures } from '../index/measure-check.ts'
import { rangesOf, Searcher } from '../index/searcher.ts'
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
  if (task.kind === 'search') {
    const ranges = rangesOf(segments, task.slotCount)
    return searcher.search(task.queries, ranges, () => Atomics.load(task.stop, 0) === 1)
  }
  const segment = segments[task.ordinal]!
  if (task.kind === 'fill') return fill(segment, task)
  const thread = searcher.graph(task.ordinal, task.graph)
  const endMs = performance.now() + taskMs
  const isOver = (): boolean => performance.now() >= endMs
  switch (task.kind) {
    case 'link':
      return thread.link(task.slots, task.measure, isOver)
    case 'repair':
      return thread.repair(task.from, task.to, task.measure, isOver)
    case 'release':
      thread.release()
      return undefined
    case 'reset':
      new GraphState(segment, task.graph).reset()
      return undefined
    case 'reach':
      return unreachableSlots(segment, task.graph, task.scan, isOver)
    case 'reconnect':
      return thread.reconnect(task.slots, task.scan, task.measure, isOver)
    case 'check':
      return checkMeasures(segment, thread, task.graph, task.asked, task.others)
    case 'save':
      saveGraph(segment, task.graph, task.path, task.meta)
      return undefined
    case 'load':
      return load(segment, task.graph, task.path)
  }
}

/** How long a task goes on before it makes way for others: long enough for a message to cost nothing. */
const taskMs = 20

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
      if (states[slot] === slotStates.leaving) count.leaving += 1
    }
    if (count.leaving > count.linked * leavingShareMax) {
      new GraphState(segment, graph).reset()
      const fault = `${count.leaving} of its points are gone, ${count.linked} are left`
      return { meta, fault, isOutdated: true, linked: 0, leaving: 0 }
    }
    for (let slot = 0; slot < slotCount; slot += 1) {
      // Searches go through it until it is repaired around, though nothing has filled it.
      if (states[slot] === slotStates.leaving) slotsOf(segment).encode(slot)
    }
    return { meta, ...count }
  } catch (error) {
    return { meta: { sequence: 0, routes: [] }, fault: messageOf(error), linked: 0, leaving: 0 }
  }
}

/** To repair around more than that takes longer than to build the graph anew, and what comes out is worse. */
const leavingShareMax = 0.25

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
