import * as words from '../graph-header'
import * as format from '../memory-format'
import { attachColumns } from './columns'

/**
 * The addresses of a graph and of a thread's scratch in memory, and the basic functions that the other files use.
 *
 * Each thread has its own instance of this module, and so its own variables.
 */

/** Marks the end of a list that is not full. */
export const NONE: u32 = <u32>format.NO_LINK

/** The states of a slot in the graph. */
export const ABSENT: u8 = <u8>format.ABSENT
export const LINKED: u8 = <u8>format.LINKED
export const LEAVING: u8 = <u8>format.LEAVING

// Byte offsets in a thread's scratch.
export const EPOCH: usize = 176
export const SPILL: usize = 0
export const SCORES: usize = 128
export const QUARTET: usize = 144
/** Slots to score: two lists of m0, and up to three more that pad a quartet, for m up to 64. */
export const FRESH: usize = 192
/** Keys of candidates for one list: m0 + 1, and up to three more that pad a quartet, for m up to 64. */
export const CANDIDATES: usize = FRESH + 1088
/** The scores of the slots to score. Candidates for a list are sorted at other times. */
export const FRESH_SCORES: usize = CANDIDATES
export const KEPT_FOR_OTHER: usize = CANDIDATES + 1280
export const KEPT_FOR_SELF: usize = KEPT_FOR_OTHER + 768
export const QUERY_CODE: usize = KEPT_FOR_SELF + 576

export let header: usize = 0
export let m: i32 = 0
export let m0: i32 = 0
export let efConstruction: i32 = 0
export let links: usize = 0
export let linkStride: usize = 0
export let uppers: usize = 0
export let upperBlocks: usize = 0
export let upperStride: usize = 0
export let locks: usize = 0
export let states: usize = 0
export let levels: usize = 0
export let ring: usize = 0
export let ringLength: i64 = 0

export let scratch: usize = 0
export let pool: usize = 0
export let queryCode: usize = 0
export let visited: usize = 0
/** The mark of slots visited by the current search; see `resetVisited`. */
export let epoch: i32 = 0

/** Binds this instance to a segment's graph and to a thread's lane. */
export function attachGraph(at: usize, laneScratch: usize, lanePool: usize, laneVisited: usize): void {
  // The compiler evaluates this condition at compile time.
  if (QUERY_CODE + <usize>format.CODE_HEADER_BYTES > <usize>format.GRAPH_SCRATCH_BYTES) ERROR('scratch is too small')
  attachColumns(at)
  header = at
  m = load<i32>(header, words.M)
  m0 = load<i32>(header, words.M0)
  efConstruction = load<i32>(header, words.EF_CONSTRUCTION)
  links = load<usize>(header, words.LINKS)
  linkStride = <usize>m0 << 2
  uppers = load<usize>(header, words.UPPERS)
  upperBlocks = load<usize>(header, words.UPPER_BLOCKS)
  upperStride = <usize>m << 2
  locks = load<usize>(header, words.LOCKS)
  states = load<usize>(header, words.STATES)
  levels = load<usize>(header, words.LEVELS)
  ring = load<usize>(header, words.RING)
  ringLength = load<i64>(header, words.RING_LENGTH)
  scratch = laneScratch
  queryCode = laneScratch + QUERY_CODE
  pool = lanePool
  visited = laneVisited
}

/** Returns the list of a node at a level. The upper lists of a node are adjacent, level 1 first. */
// @ts-ignore: decorator
@inline
export function listOf(slot: u32, level: i32): usize {
  if (level == 0) return links + <usize>slot * linkStride
  return upperBlocks + <usize>(load<u32>(uppers + (<usize>slot << 2)) + <u32>(level - 1)) * upperStride
}

// @ts-ignore: decorator
@inline
export function lengthAt(level: i32): i32 {
  return level == 0 ? m0 : m
}

export function lock(slot: u32): void {
  const at = locks + <usize>slot
  let spins = 0
  while (atomic.cmpxchg<u8>(at, 0, 1) != 0) {
    spins++
    // The holder may have been descheduled. A pause of 20 microseconds lets it continue.
    if (spins > 200) atomic.wait<i32>(header + words.PAUSE, 0, 20000)
  }
}

// @ts-ignore: decorator
@inline
export function unlock(slot: u32): void {
  atomic.store<u8>(locks + <usize>slot, 0)
}

/** Empties the set of visited slots. All graphs that a thread searches share the marks of its lane. */
export function resetVisited(): void {
  epoch = load<i32>(scratch + EPOCH) + 1
  if (epoch == 256) {
    memory.fill(visited, 0, <usize>atomic.load<i32>(header + words.SLOTS))
    epoch = 1
  }
  store<i32>(scratch + EPOCH, epoch)
}

// @ts-ignore: decorator
@inline
export function isVisited(slot: u32): bool {
  return load<u8>(visited + <usize>slot) == <u8>epoch
}

// @ts-ignore: decorator
@inline
export function visit(slot: u32): void {
  store<u8>(visited + <usize>slot, <u8>epoch)
}

// @ts-ignore: decorator
@inline
export function stateOf(slot: u32): u8 {
  return atomic.load<u8>(states + <usize>slot)
}

/** Returns entry `index` of a list of slots. */
// @ts-ignore: decorator
@inline
export function slotAt(list: usize, index: i32): u32 {
  return load<u32>(list + (<usize>index << 2))
}
