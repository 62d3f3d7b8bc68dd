import { CODE_COSINE_SCALE, CODE_HEADER, CODE_NORM, CODE_SCALE, CODE_SUM, CODE_ZERO, dotCodes4, encodeQuery, encodeStored } from './codes'
import { COSINE, dot32, EUCLIDEAN, euclidean32, HAMMING, hamming, manhattan32 } from './distances'
import { offerSlot } from './scan'

/**
 * A hierarchical navigable small world graph over the slots of one segment (Malkov and Yashunin,
 * arXiv:1603.09320: algorithms 1, 2, 4 and 5), with the graph's distances on integer codes (codes.ts) and the
 * answer's on the float32 rows.
 *
 * Several threads insert at once, and any number search meanwhile without locks. What makes it safe:
 *
 *   - Each thread has an instance of this module over the same memory; the globals below are its own.
 *   - A list of neighbours is a run of slots that ends at NONE or at its full length. It changes in place,
 *     under its node's spin lock, one aligned word at a time: a reader that walks through it meanwhile sees
 *     old and new entries mixed, each of which is a slot with codes and lists of its own.
 *   - A node's codes and lists are written before anything points at it.
 *
 * Fields of the header that TypeScript writes stand in src/index/graph-layout.ts, in the same order.
 */

const NONE: u32 = 0xffffffff
const LEVEL_MAX: i32 = 15

/** How a traversal measures: by the codes, or by the float32 rows under a metric. */
const CODES_EUCLIDEAN: i32 = 0
const CODES_COSINE: i32 = 1
const ROWS: i32 = 2

/** Bytes of a thread's scratch before its pools. */
const EPOCH: usize = 176
const SPILL: usize = 0
const SCORES: usize = 128
const QUARTET: usize = 144
/** Slots to score: m0 and three of filling. */
const FRESH: usize = 192
/** Keys of candidates for one list: m0 + 1 and three of filling, for m up to 64. */
const CANDIDATES: usize = FRESH + 768
const KEPT_FOR_OTHER: usize = CANDIDATES + 1280
const KEPT_FOR_SELF: usize = KEPT_FOR_OTHER + 768
const QUERY_CODE: usize = KEPT_FOR_SELF + 576

let header: usize = 0
let width: i32 = 0
let rowLength: i32 = 0
let m: i32 = 0
let m0: i32 = 0
let efConstruction: i32 = 0
let codes: usize = 0
let codeStride: usize = 0
let links: usize = 0
let linkStride: usize = 0
let uppers: usize = 0
let upperBlocks: usize = 0
let upperStride: usize = 0
let locks: usize = 0
let live: usize = 0
let states: usize = 0
let rows: usize = 0
let sequences: usize = 0
let norms: usize = 0

let scratch: usize = 0
let pool: usize = 0
let chosen: usize = 0
let queryCode: usize = 0
let visited: usize = 0
let epoch: i32 = 0
let levels: usize = 0
let ring: usize = 0
let ringLength: i64 = 0
let poolCount: i32 = 0

let order: i32 = 0
let queryCodes: usize = 0
let queryRow: usize = 0
let queryRoot: f32 = 0
let base: f32 = 0
let factor: f32 = 0
let constant: i32 = 0
let sumFactor: i32 = 0

/** Binds this instance to a segment's graph and to a thread's lane. */
export function attachGraph(at: usize, laneScratch: usize, lanePool: usize, laneVisited: usize): void {
  header = at
  width = load<i32>(at, 0)
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
  chosen = laneScratch + CANDIDATES
  queryCode = laneScratch + QUERY_CODE
  pool = lanePool
  visited = laneVisited
  levels = load<u32>(at, 84)
  ring = load<u32>(at, 88)
  ringLength = <i64>load<u32>(at, 92)
}

// Header words that the graph itself changes, as 32-bit atomics.
const UPPER_NEXT: usize = 64
const UPPER_LIMIT: usize = 68
/** i64: level << 32 | slot of the entry point, -1 while the graph is empty. */
const ENTRY: usize = 72
const PAUSE: usize = 80
/** i64 counts of the slots that ever entered and left the ring of those that wait to be linked. */
const RING_HEAD: usize = 96
const RING_TAIL: usize = 104

/** Slots of the segment that were ever filled; the main thread's. */
const SLOTS: usize = 112

/** What a slot is to the graph. */
const ABSENT: u8 = 0
const LINKED: u8 = 1
const LEAVING: u8 = 2

// @ts-ignore: decorator
@inline
function codeOf(slot: u32): usize {
  return codes + <usize>slot * codeStride
}

// @ts-ignore: decorator
@inline
function rowOf(slot: u32): usize {
  return rows + <usize>slot * (<usize>rowLength << 2)
}

/** The list of a node at a level. A node's upper lists stand together, level 1 first. */
// @ts-ignore: decorator
@inline
function listOf(slot: u32, level: i32): usize {
  if (level == 0) return links + <usize>slot * linkStride
  return upperBlocks + <usize>(load<u32>(uppers + (<usize>slot << 2)) + <u32>(level - 1)) * upperStride
}

// @ts-ignore: decorator
@inline
function lengthAt(level: i32): i32 {
  return level == 0 ? m0 : m
}

function lock(slot: u32): void {
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
function unlock(slot: u32): void {
  atomic.store<u8>(locks + <usize>slot, 0)
}

/** Measures from here on are from a stored slot. */
function askFrom(slot: u32, kind: i32): void {
  order = kind
  queryRow = rowOf(slot)
  if (kind >= ROWS) {
    queryRoot = <f32>Math.sqrt(load<f64>(norms + (<usize>slot << 3)))
    return
  }
  const code = codeOf(slot)
  queryCodes = code + CODE_HEADER
  constant = -CODE_ZERO * load<i32>(code + CODE_SUM) + CODE_ZERO * CODE_ZERO * width
  sumFactor = -CODE_ZERO
  setFactors(code)
}

/** Measures from here on are from a query's row, whose codes are made here. */
function askFor(row: usize, norm: f64, kind: i32): void {
  order = kind
  queryRow = row
  queryRoot = <f32>Math.sqrt(norm)
  if (kind >= ROWS) return
  encodeQuery(row, rowLength, width, queryCode)
  queryCodes = queryCode + CODE_HEADER
  constant = -CODE_ZERO * load<i32>(queryCode + CODE_SUM)
  sumFactor = 0
  setFactors(queryCode)
}

// @ts-ignore: decorator
@inline
function setFactors(code: usize): void {
  if (order == CODES_EUCLIDEAN) {
    base = load<f32>(code + CODE_NORM)
    factor = 2 * load<f32>(code + CODE_SCALE)
  } else {
    base = 1
    factor = load<f32>(code + CODE_COSINE_SCALE)
  }
}

/** The distance of the asked-for vector to a row under a metric, in float32. */
function rowDistance(metric: i32, slot: u32): f32 {
  const row = rowOf(slot)
  if (metric == EUCLIDEAN) return euclidean32(queryRow, row, rowLength)
  if (metric == HAMMING) return <f32>hamming(queryRow, row, rowLength)
  if (metric != COSINE) return manhattan32(queryRow, row, rowLength)
  const root = queryRoot * <f32>Math.sqrt(load<f64>(norms + (<usize>slot << 3)))
  return root > 0 ? 1 - dot32(queryRow, row, rowLength) / root : 1
}

// @ts-ignore: decorator
@inline
function decoded(code: usize, dot: i32): f32 {
  const signed = <f32>(dot + constant + sumFactor * load<i32>(code + CODE_SUM))
  const distance =
    order == CODES_EUCLIDEAN
      ? base + load<f32>(code + CODE_NORM) - factor * load<f32>(code + CODE_SCALE) * signed
      : base - factor * load<f32>(code + CODE_COSINE_SCALE) * signed
  return distance
}

/** Distances below zero and those that are not numbers would break the order of the keys. */
// @ts-ignore: decorator
@inline
function sane(distance: f32): f32 {
  return distance == distance ? max<f32>(distance, 0) : Infinity
}

/** Writes to SCORES the distances of four slots. */
// @ts-ignore: decorator
@inline
function score4(a: u32, b: u32, c: u32, d: u32): void {
  const out = scratch + SCORES
  if (order >= ROWS) {
    const metric = order - ROWS
    store<f32>(out, sane(rowDistance(metric, a)))
    store<f32>(out, sane(rowDistance(metric, b)), 4)
    store<f32>(out, sane(rowDistance(metric, c)), 8)
    store<f32>(out, sane(rowDistance(metric, d)), 12)
    return
  }
  const ca = codeOf(a)
  const cb = codeOf(b)
  const cc = codeOf(c)
  const cd = codeOf(d)
  const dots = scratch + QUARTET
  dotCodes4(
    queryCodes,
    ca + CODE_HEADER,
    cb + CODE_HEADER,
    cc + CODE_HEADER,
    cd + CODE_HEADER,
    <usize>width,
    scratch + SPILL,
    dots,
  )
  store<f32>(out, sane(decoded(ca, load<i32>(dots))))
  store<f32>(out, sane(decoded(cb, load<i32>(dots, 4))), 4)
  store<f32>(out, sane(decoded(cc, load<i32>(dots, 8))), 8)
  store<f32>(out, sane(decoded(cd, load<i32>(dots, 12))), 12)
}

function score1(slot: u32): f32 {
  score4(slot, slot, slot, slot)
  return load<f32>(scratch + SCORES)
}

/** A pool entry: the distance's bits, which order as the non-negative number does, the slot, and whether it is expanded. */
// @ts-ignore: decorator
@inline
function keyOf(distance: f32, slot: u32): u64 {
  return (<u64>reinterpret<u32>(distance) << 32) | (<u64>slot << 1)
}

// @ts-ignore: decorator
@inline
function slotOf(key: u64): u32 {
  return <u32>key >>> 1
}

// @ts-ignore: decorator
@inline
function distanceOf(key: u64): f32 {
  return reinterpret<f32>(<u32>(key >>> 32))
}

/** Starts a new set of visited slots; all graphs that a lane's thread searches share the lane's marks. */
function forget(): void {
  epoch = load<i32>(scratch + EPOCH) + 1
  if (epoch == 256) {
    memory.fill(visited, 0, <usize>atomic.load<i32>(header + SLOTS))
    epoch = 1
  }
  store<i32>(scratch + EPOCH, epoch)
}

/** Steps greedily to the nearest slot of one level. */
function descend(from: u32, level: i32): u32 {
  let best = from
  let bestDistance = score1(from)
  let moved = true
  while (moved) {
    moved = false
    const list = listOf(best, level)
    for (let at = 0; at < m; at += 4) {
      const a = load<u32>(list + (<usize>at << 2))
      if (a == NONE) break
      const b = load<u32>(list + (<usize>at << 2), 4)
      const c = load<u32>(list + (<usize>at << 2), 8)
      const d = load<u32>(list + (<usize>at << 2), 12)
      score4(a, b == NONE ? a : b, c == NONE ? a : c, d == NONE ? a : d)
      for (let i = 0; i < 4; i++) {
        const score = load<f32>(scratch + SCORES + (<usize>i << 2))
        const slot = load<u32>(list + (<usize>(at + i) << 2))
        if (score < bestDistance && slot != NONE) {
          bestDistance = score
          best = slot
          moved = true
        }
      }
    }
  }
  return best
}

/** Puts an entry into the pool of at most `ef`, in order; gives its place, or -1 where it is too far. */
// @ts-ignore: decorator
@inline
function insertKey(key: u64, ef: i32): i32 {
  let low = 0
  let high = poolCount
  if (poolCount == ef) {
    if (key >= load<u64>(pool + (<usize>(ef - 1) << 3))) return -1
    high = ef - 1
  }
  const last = high
  while (low < high) {
    const middle = (low + high) >> 1
    if (load<u64>(pool + (<usize>middle << 3)) < key) low = middle + 1
    else high = middle
  }
  const at = pool + (<usize>low << 3)
  for (let to = pool + (<usize>last << 3); to > at; to -= 8) store<u64>(to, load<u64>(to - 8))
  store<u64>(at, key)
  poolCount = last + 1
  return low
}

/**
 * Algorithm 2, with one pool in order instead of two heaps: fills it with the `ef` nearest found at a level,
 * from the entries that stand in it already.
 */
function beam(level: i32, ef: i32): void {
  const length = lengthAt(level)
  const fresh = scratch + FRESH
  let next = 0
  while (next < poolCount) {
    const place = pool + (<usize>next << 3)
    const key = load<u64>(place)
    if (key & 1) {
      next++
      continue
    }
    store<u64>(place, key | 1)
    const list = listOf(slotOf(key), level)
    let count = 0
    for (let i = 0; i < length; i++) {
      const slot = load<u32>(list + (<usize>i << 2))
      if (slot == NONE) break
      const mark = visited + <usize>slot
      store<u32>(fresh + (<usize>count << 2), slot)
      count += i32(load<u8>(mark) != <u8>epoch)
      store<u8>(mark, <u8>epoch)
    }
    next = min(offerFresh(count, ef), next + 1)
  }
}

/**
 * Scores the first `count` slots of FRESH and puts them into the pool.
 *
 * @returns the foremost place that was filled, or a place past every pool
 */
// @ts-ignore: decorator
@inline
function offerFresh(count: i32, ef: i32): i32 {
  const fresh = scratch + FRESH
  let lowest: i32 = i32.MAX_VALUE
  if (count == 0) return lowest
  // Up to three repeats of the last slot fill the last quartet; they are scored and not looked at.
  const filler = load<u32>(fresh + (<usize>(count - 1) << 2))
  store<u32>(fresh + (<usize>count << 2), filler)
  store<u32>(fresh + (<usize>count << 2), filler, 4)
  store<u32>(fresh + (<usize>count << 2), filler, 8)
  for (let i = 0; i < count; i += 4) {
    const four = fresh + (<usize>i << 2)
    score4(load<u32>(four), load<u32>(four, 4), load<u32>(four, 8), load<u32>(four, 12))
    const end = min(count - i, 4)
    for (let j = 0; j < end; j++) {
      const score = load<f32>(scratch + SCORES + (<usize>j << 2))
      const at = insertKey(keyOf(score, load<u32>(four + (<usize>j << 2))), ef)
      if (at >= 0 && at < lowest) lowest = at
    }
  }
  return lowest
}

function startPool(slot: u32): void {
  store<u64>(pool, keyOf(score1(slot), slot))
  poolCount = 1
  store<u8>(visited + <usize>slot, <u8>epoch)
}

/**
 * Algorithm 4: of candidates in ascending order keeps those that are nearer to the asked-for vector than to
 * any kept before, so that a list's few places point in different directions. Writes slots to `into`.
 *
 * @param candidates keys, ascending
 * @returns how many were kept, at most `limit`
 */
function selectNeighbours(candidates: usize, count: i32, limit: i32, into: usize, kind: i32, self: u32): i32 {
  let kept = 0
  for (let i = 0; i < count && kept < limit; i++) {
    const key = load<u64>(candidates + (<usize>i << 3))
    const slot = slotOf(key)
    if (slot == self || atomic.load<u8>(live + <usize>slot) == 0) continue
    const distance = distanceOf(key)
    store<u32>(into + (<usize>kept << 2), slot)
    if (isApart(slot, distance, into, kept, kind)) kept++
  }
  return kept
}

/** Whether a slot is nearer than `distance` to none of the kept ones; `into` has room for three more. */
// @ts-ignore: decorator
@inline
function isApart(slot: u32, distance: f32, into: usize, kept: i32, kind: i32): bool {
  if (kept == 0) return true
  askFrom(slot, kind)
  for (let i = 0; i < kept; i += 4) {
    const four = into + (<usize>i << 2)
    const a = load<u32>(four)
    score4(
      a,
      i + 1 < kept ? load<u32>(four, 4) : a,
      i + 2 < kept ? load<u32>(four, 8) : a,
      i + 3 < kept ? load<u32>(four, 12) : a,
    )
    const scores = v128.load(scratch + SCORES)
    if (v128.any_true(f32x4.lt(scores, f32x4.splat(distance)))) return false
  }
  return true
}

/** Writes a list: its slots, then NONE. */
function writeList(list: usize, length: i32, from: usize, count: i32): void {
  for (let i = 0; i < length; i++) {
    store<u32>(list + (<usize>i << 2), i < count ? load<u32>(from + (<usize>i << 2)) : NONE)
  }
}

/** Adds `slot` to the list of `to`, which under its lock is chosen anew when it is full. */
function linkBack(to: u32, slot: u32, level: i32, kind: i32): void {
  const length = lengthAt(level)
  const list = listOf(to, level)
  lock(to)
  let count = 0
  let known = false
  while (count < length) {
    const each = load<u32>(list + (<usize>count << 2))
    if (each == NONE) break
    if (each == slot) known = true
    count++
  }
  if (!known) {
    if (count < length) {
      atomic.store<u32>(list + (<usize>count << 2), slot)
    } else {
      chooseAnew(to, slot, list, length, kind)
    }
  }
  unlock(to)
}

function chooseAnew(to: u32, slot: u32, list: usize, length: i32, kind: i32): void {
  const fresh = scratch + FRESH
  memory.copy(fresh, list, <usize>length << 2)
  store<u32>(fresh + (<usize>length << 2), slot)
  sortByDistance(to, fresh, length + 1, kind)
  const into = scratch + KEPT_FOR_OTHER
  const kept = selectNeighbours(chosen, length + 1, length, into, kind, to)
  writeList(list, length, into, kept)
}

/** Writes the keys of slots to `chosen`, ascending by their distance to `from`. */
function sortByDistance(from: u32, slots: usize, count: i32, kind: i32): void {
  askFrom(from, kind)
  for (let i = 0; i < count; i += 4) {
    const four = slots + (<usize>i << 2)
    const a = load<u32>(four)
    score4(
      a,
      i + 1 < count ? load<u32>(four, 4) : a,
      i + 2 < count ? load<u32>(four, 8) : a,
      i + 3 < count ? load<u32>(four, 12) : a,
    )
    const end = min(count - i, 4)
    for (let j = 0; j < end; j++) {
      const key = keyOf(
        load<f32>(scratch + SCORES + (<usize>j << 2)),
        load<u32>(four + (<usize>j << 2)),
      )
      let to = chosen + (<usize>(i + j) << 3)
      while (to > chosen && load<u64>(to - 8) > key) {
        store<u64>(to, load<u64>(to - 8))
        to -= 8
      }
      store<u64>(to, key)
    }
  }
}

/**
 * Algorithm 1: codes a slot and links it into the graph, at `level` and below. A slot that was linked before
 * keeps its level, and with it the room of its upper lists.
 *
 * @returns 0, or 1 when there is no room for upper lists and the slot was linked at level 0 alone
 */
export function insertSlot(slot: u32, level: i32, kind: i32): i32 {
  if (kind < ROWS) encodeStored(rowOf(slot), rowLength, width, codeOf(slot))
  let full = 0
  if (level > 0 && !haveUpper(slot, level)) {
    level = 0
    full = 1
  }
  store<u8>(levels + <usize>slot, <u8>level)
  for (let each = 0; each <= level; each++) writeList(listOf(slot, each), lengthAt(each), 0, 0)

  const mine = (<i64>level << 32) | <i64>slot
  let entry = atomic.load<i64>(header + ENTRY)
  if (entry < 0) {
    entry = atomic.cmpxchg<i64>(header + ENTRY, -1, mine)
    if (entry < 0) {
      atomic.store<u8>(states + <usize>slot, LINKED)
      return full
    }
  }
  linkInto(slot, level, entry, kind)
  atomic.store<u8>(states + <usize>slot, LINKED)
  while (<i32>(entry >> 32) < level) {
    const seen = atomic.cmpxchg<i64>(header + ENTRY, entry, mine)
    if (seen == entry) break
    entry = seen
  }
  return full
}

function linkInto(slot: u32, level: i32, entry: i64, kind: i32): void {
  askFrom(slot, kind)
  let at = <u32>entry
  const top = <i32>(entry >> 32)
  for (let each = top; each > level; each--) at = descend(at, each)
  for (let each = min(top, level); each >= 0; each--) {
    forget()
    askFrom(slot, kind)
    startPool(at)
    store<u8>(visited + <usize>slot, <u8>epoch)
    beam(each, efConstruction)
    at = slotOf(load<u64>(pool))
    const own = scratch + KEPT_FOR_SELF
    const kept = selectNeighbours(pool, poolCount, m, own, kind, slot)
    const list = listOf(slot, each)
    const length = lengthAt(each)
    lock(slot)
    // Threads that insert beside this one may have linked to the slot from a level above already.
    writeList(list, length, own, kept)
    unlock(slot)
    for (let i = 0; i < kept; i++) {
      linkBack(load<u32>(own + (<usize>i << 2)), slot, each, kind)
    }
  }
}

/** Makes sure that a slot has room for its upper lists. */
function haveUpper(slot: u32, level: i32): bool {
  const at = uppers + (<usize>slot << 2)
  if (load<u32>(at) != 0) return true
  const first = atomic.add<u32>(header + UPPER_NEXT, <u32>level)
  if (first + <u32>level > load<u32>(header + UPPER_LIMIT)) return false
  store<u32>(at, first)
  return true
}

/**
 * Searches the graph, and the slots that wait to be linked, and offers what it finds to the query's pool of
 * its k nearest (scan.ts), each by its exact distance.
 *
 * The waiting slots come first: one that is linked meanwhile has then been seen already, and one that was
 * linked before is found by the graph.
 *
 * @param rerank how many of the traversal's pool are measured exactly, the nearest first
 * @returns the number of entries in the pool of nearest slots afterwards
 */
export function searchGraph(
  metric: i32,
  kind: i32,
  query: usize,
  queryNorm: f64,
  ef: i32,
  rerank: i32,
  nearest: usize,
  k: i32,
  count: i32,
): i32 {
  forget()
  const tail = atomic.load<i64>(header + RING_TAIL)
  for (let place = atomic.load<i64>(header + RING_HEAD); place < tail; place++) {
    const slot = load<u32>(ring + (<usize>(place % ringLength) << 2))
    if (atomic.load<u8>(states + <usize>slot) == LINKED) continue
    store<u8>(visited + <usize>slot, <u8>epoch)
    count = offerSlot(metric, query, queryNorm, rowLength, rows, live, sequences, norms, <i32>slot, nearest, k, count)
  }
  const entry = atomic.load<i64>(header + ENTRY)
  if (entry < 0) return count
  askFor(query, queryNorm, kind)
  let at = <u32>entry
  for (let level = <i32>(entry >> 32); level > 0; level--) at = descend(at, level)
  const offered = load<u8>(visited + <usize>at) == <u8>epoch ? at : NONE
  startPool(at)
  beam(0, ef)
  let ranked = 0
  for (let i = 0; i < poolCount && ranked < rerank; i++) {
    const slot = slotOf(load<u64>(pool + (<usize>i << 3)))
    if (slot == offered || atomic.load<u8>(live + <usize>slot) == 0) continue
    ranked++
    count = offerSlot(metric, query, queryNorm, rowLength, rows, live, sequences, norms, <i32>slot, nearest, k, count)
  }
  return count
}

/** Codes a slot again, after its row and its links were read from disk. */
export function encodeSlot(slot: u32): void {
  encodeStored(rowOf(slot), rowLength, width, codeOf(slot))
}

/**
 * Takes the slots that are LEAVING out of the lists of slots [from, to): a list that names one is chosen anew
 * from what it keeps and from the lists of those that leave (Singh et al., arXiv:2105.09613, algorithm 4).
 * Nothing may be linked meanwhile; several threads may repair ranges of their own.
 *
 * @returns how many lists were chosen anew
 */
export function repairRange(from: i32, to: i32, kind: i32): i32 {
  let repaired = 0
  for (let slot = <u32>from; slot < <u32>to; slot++) {
    if (load<u8>(states + <usize>slot) != LINKED) continue
    const level = <i32>load<u8>(levels + <usize>slot)
    for (let each = 0; each <= level; each++) {
      if (!namesLeaving(listOf(slot, each), lengthAt(each))) continue
      repairList(slot, each, kind)
      repaired++
    }
  }
  return repaired
}

function namesLeaving(list: usize, length: i32): bool {
  for (let i = 0; i < length; i++) {
    const slot = load<u32>(list + (<usize>i << 2))
    if (slot == NONE) return false
    if (load<u8>(states + <usize>slot) == LEAVING) return true
  }
  return false
}

function repairList(slot: u32, level: i32, kind: i32): void {
  forget()
  askFrom(slot, kind)
  store<u8>(visited + <usize>slot, <u8>epoch)
  poolCount = 0
  const list = listOf(slot, level)
  const length = lengthAt(level)
  offerList(list, level)
  for (let i = 0; i < length; i++) {
    const each = load<u32>(list + (<usize>i << 2))
    if (each == NONE) break
    if (load<u8>(states + <usize>each) == LEAVING) offerList(listOf(each, level), level)
  }
  const into = scratch + KEPT_FOR_OTHER
  const kept = selectNeighbours(pool, poolCount, length, into, kind, slot)
  lock(slot)
  writeList(list, length, into, kept)
  unlock(slot)
}

/** Puts the slots of a list that stay and were not seen yet into the pool. */
function offerList(list: usize, level: i32): void {
  const length = lengthAt(level)
  const fresh = scratch + FRESH
  let count = 0
  for (let i = 0; i < length; i++) {
    const slot = load<u32>(list + (<usize>i << 2))
    if (slot == NONE) break
    const mark = visited + <usize>slot
    if (load<u8>(mark) == <u8>epoch || load<u8>(states + <usize>slot) != LINKED) continue
    store<u8>(mark, <u8>epoch)
    store<u32>(fresh + (<usize>count << 2), slot)
    count++
  }
  offerFresh(count, efConstruction)
}

/** Ends the stay of the slots that are LEAVING, and gives the graph another entry point if it was one of them. */
export function releaseLeaving(): void {
  const slotCount = atomic.load<i32>(header + SLOTS)
  for (let slot: u32 = 0; slot < <u32>slotCount; slot++) {
    if (load<u8>(states + <usize>slot) == LEAVING) atomic.store<u8>(states + <usize>slot, ABSENT)
  }
  const entry = atomic.load<i64>(header + ENTRY)
  if (entry >= 0 && load<u8>(states + <usize>(<u32>entry)) == LINKED) return
  let best: i64 = -1
  for (let slot: u32 = 0; slot < <u32>slotCount; slot++) {
    if (load<u8>(states + <usize>slot) != LINKED) continue
    const level = <i64>load<u8>(levels + <usize>slot)
    if (level > best >> 32 || best < 0) best = (level << 32) | <i64>slot
  }
  atomic.store<i64>(header + ENTRY, best)
}

/**
 * Puts a slot that no list names any more into the list of the nearest slot that has a place free, or in place
 * of the last entry of the nearest one.
 */
export function adopt(slot: u32, kind: i32): void {
  askFrom(slot, kind)
  const entry = atomic.load<i64>(header + ENTRY)
  let at = <u32>entry
  for (let level = <i32>(entry >> 32); level > 0; level--) at = descend(at, level)
  forget()
  startPool(at)
  store<u8>(visited + <usize>slot, <u8>epoch)
  beam(0, efConstruction)
  for (let i = 0; i < poolCount; i++) {
    const parent = slotOf(load<u64>(pool + (<usize>i << 3)))
    if (parent == slot) continue
    const list = listOf(parent, 0)
    if (load<u32>(list + (<usize>(m0 - 1) << 2)) != NONE) continue
    linkBack(parent, slot, 0, kind)
    return
  }
  const parent = slotOf(load<u64>(pool))
  if (parent != slot) store<u32>(listOf(parent, 0) + (<usize>(m0 - 1) << 2), slot)
}
