import { GraphState, noLink, slotStates } from './graph-state.ts'
import type { SegmentHandle } from './segment.ts'

/** The progress of a scan for unreachable slots. It is in shared memory, so that any thread can continue the scan. */
export interface ReachScan {
  /** u8 a slot: 1 if it was reached. */
  readonly reached: Uint8Array
  /** Reached slots whose lists have not been read yet. */
  readonly stack: Uint32Array
  /** The length of the stack; -1 before the first step. */
  readonly open: Int32Array
}

export function startReachScan(slotCount: number): ReachScan {
  const words = new SharedArrayBuffer(4 * slotCount + 4)
  return {
    reached: new Uint8Array(new SharedArrayBuffer(slotCount)),
    stack: new Uint32Array(words, 4, slotCount),
    open: new Int32Array(words, 0, 1).fill(-1),
  }
}

/**
 * Continues a scan for linked slots that cannot be reached at level 0 from the entry point.
 *
 * The caller must check the result: slots linked during the scan may be reported as unreachable.
 *
 * @param isOver called every few thousand slots; once it returns true, the rest is left for another call
 * @returns the unreachable slots; undefined while the scan is not complete
 */
export function unreachableSlots(
  segment: SegmentHandle,
  graph: number,
  scan: ReachScan,
  isOver: () => boolean = () => false,
): number[] | undefined {
  const { states, entry } = new GraphState(segment, graph)
  const { reached, open } = scan
  if (open[0]! < 0) {
    open[0] = 0
    if (entry !== undefined && entry.slot < reached.length) reach(scan, entry.slot)
  }
  if (!reachAll(segment, graph, scan, isOver)) return undefined
  const lost: number[] = []
  for (let slot = 0; slot < reached.length; slot += 1) {
    if (states[slot] === slotStates.linked && reached[slot] === 0) lost.push(slot)
  }
  return lost
}

/** Marks a slot as reached; `reachAll` continues from it. */
export function reach({ reached, stack, open }: ReachScan, slot: number): void {
  reached[slot] = 1
  stack[open[0]!] = slot
  open[0]! += 1
}

/** Marks all slots that can be reached from the slots on the stack. Returns false if `isOver` stopped it early. */
export function reachAll(
  segment: SegmentHandle,
  graph: number,
  scan: ReachScan,
  isOver: () => boolean,
): boolean {
  const { links } = new GraphState(segment, graph)
  const { reached, stack } = scan
  const length = 2 * segment.layout.m
  let open = scan.open[0]!
  for (let seen = 1; open > 0 && (seen % slotsPerLook !== 0 || !isOver()); seen += 1) {
    const list = stack[--open]! * length
    for (let at = list; at < list + length; at += 1) {
      const slot = links[at]!
      if (slot === noLink) break
      // Slots beyond the end were filled after the scan began.
      if (slot >= reached.length || reached[slot] === 1) continue
      reached[slot] = 1
      stack[open++] = slot
    }
  }
  scan.open[0] = open
  return open === 0
}

/** Scanning this many slots takes about a millisecond. */
const slotsPerLook = 4096

/**
 * Checks the invariants of a graph: the links of a list are distinct linked slots that exist on its level; the entry
 * point is linked and has the highest level; every linked slot is reachable.
 *
 * @returns descriptions of the faults, at most `most`
 */
export function graphFaults(segment: SegmentHandle, graph: number, most = 20): string[] {
  const state = new GraphState(segment, graph)
  const { states, levels, slotCount, entry } = state
  const faults: string[] = []
  let highest = -1
  for (let slot = 0; slot < slotCount && faults.length < most; slot += 1) {
    if (states[slot] !== slotStates.linked) continue
    highest = Math.max(highest, levels[slot]!)
    for (let level = 0; level <= levels[slot]!; level += 1) {
      faults.push(...listFaults(segment, state, slot, level))
    }
  }
  if (highest >= 0 && (entry === undefined || states[entry.slot] !== slotStates.linked)) {
    faults.push('the entry point is not a linked slot')
  } else if (highest >= 0 && entry!.level < highest) {
    faults.push(`the entry point is on level ${entry!.level}, the highest level is ${highest}`)
  }
  const lost = unreachableSlots(segment, graph, startReachScan(slotCount))!
  if (lost.length > 0) faults.push(`${lost.length} linked slots are unreachable, the first is ${lost[0]}`)
  return faults.slice(0, most)
}

function listFaults(segment: SegmentHandle, state: GraphState, slot: number, level: number): string[] {
  const faults: string[] = []
  const seen = new Set<number>()
  for (const each of listOf(segment, state, slot, level)) {
    const where = `slot ${slot} at level ${level}`
    if (each === slot) faults.push(`${where} links to itself`)
    else if (seen.has(each)) faults.push(`${where} links to ${each} twice`)
    else if (each >= state.slotCount || state.states[each] === slotStates.absent) {
      faults.push(`${where} links to ${each}, which is not linked`)
    } else if (state.levels[each]! < level)
      faults.push(`${where} links to ${each}, which is on lower levels only`)
    seen.add(each)
  }
  return faults
}

/** Returns the links of a slot at a level. */
export function listOf(segment: SegmentHandle, state: GraphState, slot: number, level: number): number[] {
  const { m } = segment.layout
  const [from, length, column] =
    level === 0
      ? [slot * 2 * m, 2 * m, state.links]
      : [(state.uppers[slot]! + level - 1) * m, m, state.upperBlocks]
  const list = [...column.subarray(from, from + length)]
  const end = list.indexOf(noLink)
  return end === -1 ? list : list.slice(0, end)
}
