import { GraphState, noLink, slotStates } from './graph-state.ts'
import type { SegmentHandle } from './segment.ts'

/** Linked slots to which no way leads at level 0 from the entry point. */
export function unreachedSlots(segment: SegmentHandle, graph: number): number[] {
  const state = new GraphState(segment, graph)
  const { states, links, slotCount, entry } = state
  const length = 2 * segment.layout.m
  const reached = new Uint8Array(slotCount)
  const stack = new Uint32Array(slotCount)
  let open = 0
  if (entry !== undefined) {
    stack[open++] = entry.slot
    reached[entry.slot] = 1
  }
  while (open > 0) {
    const list = stack[--open]! * length
    for (let at = list; at < list + length; at += 1) {
      const slot = links[at]!
      if (slot === noLink) break
      if (reached[slot] === 1) continue
      reached[slot] = 1
      stack[open++] = slot
    }
  }
  const lost: number[] = []
  for (let slot = 0; slot < slotCount; slot += 1) {
    if (states[slot] === slotStates.linked && reached[slot] === 0) lost.push(slot)
  }
  return lost
}

/**
 * Checks what must hold of every graph: links name other linked slots, each once, on a level that they stand
 * on; the entry point is linked and stands on the highest level; every linked slot can be reached.
 *
 * @returns the faults found, in words; at most `most` of them
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
    faults.push(`the entry point stands on level ${entry!.level}, but there is a level ${highest}`)
  }
  const lost = unreachedSlots(segment, graph)
  if (lost.length > 0) faults.push(`${lost.length} linked slots cannot be reached, the first is ${lost[0]}`)
  return faults.slice(0, most)
}

function listFaults(segment: SegmentHandle, state: GraphState, slot: number, level: number): string[] {
  const faults: string[] = []
  const seen = new Set<number>()
  for (const each of listOf(segment, state, slot, level)) {
    const where = `slot ${slot} at level ${level}`
    if (each === slot) faults.push(`${where} names itself`)
    else if (seen.has(each)) faults.push(`${where} names ${each} twice`)
    else if (each >= state.slotCount || state.states[each] === slotStates.absent) {
      faults.push(`${where} names ${each}, which is not linked`)
    } else if (state.levels[each]! < level) faults.push(`${where} names ${each}, which stands lower`)
    seen.add(each)
  }
  return faults
}

/** The links of a slot at a level. */
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
