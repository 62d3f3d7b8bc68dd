import { readlinkSync } from 'node:fs'
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { collectGarbage } from '../base/runtime.ts'
import { checkSources } from '../index/audit.ts'
import { unreachableSlots } from '../index/graph-check.ts'
import { loadGraph, saveGraph } from '../index/graph-file.ts'
import { GraphState, slotStates } from '../index/graph-state.ts'
import { joinPages } from '../index/huge-pages.ts'
import { Searcher } from '../index/searcher.ts'
import type { SegmentHandle } from '../index/segment.ts'
import { Slots } from '../index/slots.ts'
import { instantiateKernels } from '../kernels/wasm-module.ts'
import { writePagedId } from '../points/id-table.ts'
import { readRows } from '../storage/files/row-file.ts'
import {
  type DetachedMessage,
  type FaultMessage,
  type IndexMessage,
  stopRanges,
  type ThreadSetup,
  takeRanges,
} from './engine-thread.ts'
import type {
  FilledSlots,
  LoadedGraph,
  ResultMessage,
  Task,
  TaskMessage,
  TaskResults,
} from './index-thread-pool.ts'
import { loadSlots, saveSlots } from './slot-files.ts'

/** An index thread: see index-thread-pool.ts for its tasks. */
const port = parentPort!
const { kernels, lane }: ThreadSetup = workerData
const indexes = new Map<number, AttachedIndex>()
yieldToSearches()

/** This thread's state for an index. */
interface AttachedIndex {
  readonly searcher: Searcher
  readonly segments: SegmentHandle[]
  /** By segment ordinal; created when slots are first filled or encoded. */
  readonly fillers: Slots[]
}

port.on('message', (message: IndexMessage | TaskMessage) => {
  switch (message.kind) {
    case 'segment':
      attach(message.index, message.segment)
      return
    case 'task':
      answer(indexes.get(message.index)!, message.task)
      return
    case 'detach':
      detach(message.index)
  }
})

function attach(index: number, segment: SegmentHandle): void {
  const attached = indexes.get(index) ?? { searcher: new Searcher(kernels, lane), segments: [], fillers: [] }
  indexes.set(index, attached)
  attached.segments[segment.ordinal] = segment
  attached.searcher.attach(segment)
}

function detach(index: number): void {
  const attached = indexes.get(index)
  attached?.searcher.close()
  for (const filler of attached?.fillers ?? []) filler?.close()
  indexes.delete(index)
  // Later, because frames on the stack still reference the index now.
  setImmediate(collectGarbage)
  post({ kind: 'detached', index, left: indexes.size })
}

function answer(index: AttachedIndex, task: Task): void {
  try {
    post({ kind: 'result', result: perform(index, task) })
  } catch (error) {
    post({ kind: 'fault', error })
  }
}

function post(message: DetachedMessage | FaultMessage | ResultMessage): void {
  port.postMessage(message)
}

function perform(index: AttachedIndex, task: Task): TaskResults[keyof TaskResults]['result'] {
  const { searcher, segments } = index
  const endMs = performance.now() + taskMs
  const isOver = (): boolean => performance.now() >= endMs
  if (task.kind === 'search') return searcher.searchSome(task, isOver, () => Atomics.load(task.stop, 0) === 1)
  const segment = segments[task.ordinal]!
  if (task.kind === 'fill') return fill(index, segment, task)
  if (task.kind === 'loadSlots') return loadSlots(segment, task.rows, task.ids, task.path, task.moment)
  if (task.kind === 'saveSlots') {
    const { slotCount } = new GraphState(segment, 0)
    saveSlots({ segment, slotCount, ids: task.ids }, task.path, task.moment)
    return undefined
  }
  if (task.kind === 'joinPages') return joinPages(segment, task.slots, task.from, isOver)
  const thread = searcher.graph(task.ordinal, task.graph)
  switch (task.kind) {
    case 'link':
      return thread.link(task.slots, task.distanceKind, isOver)
    case 'repair':
      return thread.repair(task.from, task.to, task.distanceKind, isOver)
    case 'release':
      thread.release()
      return undefined
    case 'reset':
      new GraphState(segment, task.graph).reset()
      return undefined
    case 'reach':
      return unreachableSlots(segment, task.graph, task.scan, isOver)
    case 'reconnect':
      return thread.reconnect(task.slots, task.scan, task.distanceKind, isOver)
    case 'check':
      return checkSources(segment, thread, task, isOver)
    case 'walk':
      return thread.walk(task, task.distanceKind, isOver)
    case 'save':
      saveGraph(segment, task.graph, task.path, task.meta)
      return undefined
    case 'load':
      return load(index, segment, task.graph, task.path)
  }
}

/** How long a task runs before others get the thread: long enough that the cost of a message is negligible. */
const taskMs = 20

/** The same for filling; a new task must wait until the main thread has time, which is busy at a start. */
const fillMs = 250

function fill(index: AttachedIndex, segment: SegmentHandle, task: Task<'fill'>): FilledSlots {
  const { rows, slots: ranges, ids } = task
  const { firstSlot } = segment
  const slots = slotsOf(index, segment)
  const endMs = performance.now() + fillMs
  let points = 0
  try {
    for (const { from, to } of takeRanges(ranges)) {
      readRows(rows, from, to, ({ slot, id, sequence, vector }) => {
        writePagedId(ids, slot, id)
        slots.fill(slot - firstSlot, vector, sequence)
        // Encoded now, while the row is in the cache: a graph that is read from disk needs the codes.
        slots.encode(slot - firstSlot)
        points += 1
      })
      if (performance.now() >= endMs) return { points, isDone: false }
    }
    return { points, isDone: true }
  } catch (error) {
    stopRanges(ranges)
    return { points, isDone: true, fault: messageOf(error) }
  }
}

function slotsOf({ fillers }: AttachedIndex, segment: SegmentHandle): Slots {
  const { ordinal, memory } = segment
  fillers[ordinal] ??= new Slots(segment, instantiateKernels(kernels, memory), lane)
  return fillers[ordinal]
}

function load(
  index: AttachedIndex,
  segment: SegmentHandle,
  graph: number,
  path: string,
): LoadedGraph | undefined {
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
      const fault = `${count.leaving} of its points no longer exist, ${count.linked} do`
      return { meta, fault, isOutdated: true, linked: 0, leaving: 0 }
    }
    for (let slot = 0; slot < slotCount; slot += 1) {
      // Searches walk through a leaving slot until it is repaired out. Its code must exist although no point fills the
      // slot.
      if (states[slot] === slotStates.leaving) slotsOf(index, segment).encode(slot)
    }
    return { meta, ...count }
  } catch (error) {
    return { meta: { plans: [] }, fault: messageOf(error), linked: 0, leaving: 0 }
  }
}

/** Repairing out a larger share takes longer than rebuilding the graph, and the result is worse. */
const leavingShareMax = 0.25

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/**
 * Lowers this thread's priority. Linux has a priority for each thread; elsewhere index threads simply share the cores.
 */
function yieldToSearches(): void {
  try {
    setPriority(Number(readlinkSync('/proc/thread-self').split('/').at(-1)), 10)
  } catch {
    // Not supported or not allowed: nothing depends on the priority.
  }
}
