/**
 * Where a graph and a thread's scratch stand in memory, and the few things that everything else is made of.
 *
 * Each thread has an instance of this module, so the variables are its own. Fields of the header that
 * TypeScript writes stand in src/index/graph-state.ts, in the same order.
 */

/** The end of a list that is not full. */
export const NONE: u32 = 0xffffffff

/** What a slot is to the graph. */
export const ABSENT: u8 = 0
export const LINKED: u8 = 1
export const LEAVING: u8 = 2

/** Bytes of a thread's scratch before its pools. */
export const EPOCH: usize = 176
export const SPILL: usize = 0
export const SCORES: usize = 128
export const QUARTET: usize = 144
/** Slots to score: two lists of m0 and three of filling, for m up to 64. */
export const FRESH: usize = 192
/** Keys of candidates for one list: m0 + 1 and three of filling, for m up to 64. */
export const CANDIDATES: usize = FRESH + 1088
export const KEPT_FOR_OTHER: usize = CANDIDATES + 1280
export const KEPT_FOR_SELF: usize = KEPT_FOR_OTHER + 768
export const QUERY_CODE: usize = KEPT_FOR_SELF + 576

// Header words that the graph itself changes, as 32-bit atomics.
export const UPPER_NEXT: usize = 64
export const UPPER_LIMIT: usize = 68
/** i64: level << 32 | slot of the entry point, -1 while the graph is empty. */
export const ENTRY: usize = 72
export const PAUSE: usize = 80
/** i64 counts of the slots that ever entered and left the ring of those that wait to be linked. */
export const RING_HEAD: usize = 96
export const RING_TAIL: usize = 104

/** Slots of the segment that were ever filled; the main thread's. */
export const SLOTS: usize = 112
export const CODE_BITS: usize = 116

export let header: usize = 0
export let width: i32 = 0
/** Bits of a stored code: 7, in a byte (codes.ts), or 4, two in a byte (nibbles.ts). */
export let codeBits: i32 = 0
export let rowLength: i32 = 0
export let m: i32 = 0
export let m0: i32 = 0
export let efConstruction: i32 = 0
export let codes: usize = 0
export let codeStride: usize = 0
export let links: usize = 0
export let linkStride: usize = 0
export let uppers: usize = 0
export let upperBlocks: usize = 0
export let upperStride: usize = 0
export let locks: usize = 0
export let live: usize = 0
export let states: usize = 0
export let rows: usize = 0
export let sequences: usize = 0
export let norms: usize = 0

export let scratch: usize = 0
export let pool: usize = 0
export let queryCode: usize = 0
export let visited: usize = 0
export let epoch: i32 = 0
export let levels: usize = 0
export let ring: usize = 0
export let ringLength: i64 = 0

/** Binds this instance to a segment's graph and to a thread's lane. */
export function attachGraph(at: usize, laneScratch: usize, lanePool: usize, laneVisited: usize): void {
  header = at
  width = load<i32>(at, 0)
  codeBits = load<i32>(at + CODE_BITS)
  rowLength = load<i32>(at, 4)
  m = load<i32>(at, 8)
  m0 = load<i32>(at, 12)
  efConstruction = load<i32>(at, 16)
  codes = load<u32>(at, 20)
  codeStride = load<u32>(at, 24)
  links = load<u32>(at, 28)
  linkStride = <usize>m0 << 2
  uppers = load<u32>(at, 32)
  upperBlocks = load<u32>(at, 36)
  upperStride = <usize>m << 2
  locks = load<u32>(at, 40)
  live = load<u32>(at, 44)
  states = load<u32>(at, 48)
  rows = load<u32>(at, 52)
  sequences = load<u32>(at, 56)
  norms = load<u32>(at, 60)
  scratch = laneScratch
  queryCode = laneScratch + QUERY_CODE
  pool = lanePool
  visited = laneVisited
  levels = load<u32>(at, 84)
  ring = load<u32>(at, 88)
  ringLength = <i64>load<u32>(at, 92)
}

// @ts-ignore: decorator
@inline
export function codeOf(slot: u32): usize {
  return codes + <usize>slot * codeStride
}

// @ts-ignore: decorator
@inline
export function rowOf(slot: u32): usize {
  return rows + <usize>slot * (<usize>rowLength << 2)
}

/** The list of a node at a level. A node's upper lists stand together, level 1 first. */
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
    // The holder may have lost its core: a pause of 20 microseconds lets it go on.
    if (spins > 200) atomic.wait<i32>(header + PAUSE, 0, 20000)
  }
}

// @ts-ignore: decorator
@inline
export function unlock(slot: u32): void {
  atomic.store<u8>(locks + <usize>slot, 0)
}

/** Starts a new set of visited slots; all graphs that a lane's thread searches share the lane's marks. */
export function forget(): void {
  epoch = load<i32>(scratch + EPOCH) + 1
  if (epoch == 256) {
    memory.fill(visited, 0, <usize>atomic.load<i32>(header + SLOTS))
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

// @ts-ignore: decorator
@inline
export function isLive(slot: u32): bool {
  return atomic.load<u8>(live + <usize>slot) != 0
}

/** Entry `index` of a list of slots. */
// @ts-ignore: decorator
@inline
export function slotAt(list: usize, index: i32): u32 {
  return load<u32>(list + (<usize>index << 2))
}
