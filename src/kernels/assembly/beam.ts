import * as format from '../memory-format'
import {
  epoch,
  FRESH,
  FRESH_SCORES,
  lengthAt,
  listOf,
  m,
  NONE,
  pool,
  SCORES,
  scratch,
  slotAt,
  visit,
  visited,
} from './graph-memory'
import { live } from './columns'
import { areCopies, CACHE_LINE, keepPrefetched, prefetch, prefetchCodes, score1, score4 } from './distance-kinds'
import { comparedMax, filter, isWanted } from './slot-filter'

/**
 * The pool that a walk through the graph fills: keys in ascending order.
 *
 * A walk passes through removed points, but they take no place: the pool of `ef` grows by one for each. So a search
 * gets out of a neighbourhood that has just been emptied. Copies of an entry take no place either. If every vector is
 * stored twenty times, the beam would otherwise be a twentieth as wide. Copies beyond what the search can want are
 * rejected, because the first copy has the links to other points.
 *
 * With a filter, slots that do not match are treated like removed ones, but they can be most of the pool. The pool is
 * therefore kept to exactly `ef` matching slots, and the other slots nearer than the last of these. This equals a walk
 * without a filter whose `ef` is so large that `ef` of its points match. Without a filter, the few removed points are
 * only counted, which is cheaper.
 */

export let poolCount: i32 = 0

/** Number of pool entries whose point was removed or does not match the filter. */
let poolDead: i32 = 0

/** Number of pool entries that are copies of another entry. */
let poolCopies: i32 = 0

/** Maximum number of keys in the pool of a walk, with and without a filter. */
const FILTERED_MAX: i32 = format.FILTERED_POOL_MAX
const PLAIN_MAX: i32 = format.EF_MAX

/** Number of slots whose distance the walk has computed. */
let compared: i32 = 0

/** With a filter: whether the walk ended because a scan of the matching slots is cheaper. */
let gaveUp: bool = false

/** After this many compared slots, the walk checks again whether the matching slots are elsewhere. */
let nextLook: i32 = 0

/** Whether the last check found that the matching slots are elsewhere. */
let wasElsewhere: bool = false

/** With a filter: the place of the k-th matching slot, or -1 if it is unknown, and its distance. */
let kthPlace: i32 = -1
let kthDistance: f32 = Infinity

export function comparedCount(): i32 {
  return compared
}

/** Whether the last walk with a filter gave up, so that the caller must scan the matching slots. */
export function hasGivenUp(): bool {
  return gaveUp
}

/** Returns a pool entry: the bits of the distance, which sort as the distance does, the slot, and the EXPANDED bit. */
// @ts-ignore: decorator
@inline
export function keyOf(distance: f32, slot: u32): u64 {
  return (<u64>reinterpret<u32>(distance) << 32) | (<u64>slot << 1)
}

// @ts-ignore: decorator
@inline
export function slotOf(key: u64): u32 {
  return <u32>key >>> 1
}

// @ts-ignore: decorator
@inline
export function distanceOf(key: u64): f32 {
  return reinterpret<f32>(<u32>(key >>> 32))
}

/**
 * Descends greedily from the entry point through the levels above `level`. Returns the slot to start from on `level`.
 */
export function descendTo(level: i32, entry: i64): u32 {
  let at = <u32>entry
  for (let each = <i32>(entry >> 32); each > level; each--) at = descend(at, each)
  return at
}

/** Moves greedily to the nearest slot on one level. */
function descend(from: u32, level: i32): u32 {
  const quartets = m & ~3
  let best = from
  let bestDistance = score1(from)
  let moved = true
  while (moved) {
    moved = false
    const list = listOf(best, level)
    let length = 0
    while (length < m && slotAt(list, length) != NONE) length++
    prefetchCodes(list, length)
    for (let at = 0; at < quartets; at += 4) {
      const a = slotAt(list, at)
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
    // If m is no multiple of 4, a last quartet would extend into the next list, which another slot on another level may
    // own. The usual m is a multiple, so the rest of a list is scored singly, and the loop above needs no checks.
    for (let at = quartets; at < m; at++) {
      const slot = slotAt(list, at)
      if (slot == NONE) break
      const score = score1(slot)
      if (score < bestDistance) {
        bestDistance = score
        best = slot
        moved = true
      }
    }
  }
  return best
}

/**
 * Returns the place of an entry in the pool of at most `ef`; -1 if the entry is too far away.
 *
 * The branch predictor cannot guess the place, so a binary search without branches is cheaper.
 */
// @ts-ignore: decorator
@inline
function placeOf(key: u64, ef: i32): i32 {
  let left = poolCount
  if (poolCount == ef) {
    left = ef - 1
    if (key >= load<u64>(pool + (<usize>left << 3))) return -1
  }
  let at = pool
  while (left > 1) {
    const half = left >> 1
    const middle = at + (<usize>half << 3)
    at = select<usize>(middle, at, load<u64>(middle - 8) < key)
    left -= half
  }
  if (left == 1 && load<u64>(at) < key) at += 8
  return <i32>((at - pool) >> 3)
}

/** Inserts an entry at its place. A pool of `ef` entries drops its last one. */
// @ts-ignore: decorator
@inline
function insertAt(place: i32, key: u64, ef: i32): void {
  const last = min(poolCount, ef - 1)
  const at = pool + (<usize>place << 3)
  makeRoom(at, pool + (<usize>last << 3))
  store<u64>(at, key)
  poolCount = last + 1
}

/** Moves the keys in [at, end) by one place towards the end. */
// @ts-ignore: decorator
@inline
function makeRoom(at: usize, end: usize): void {
  for (; end >= at + 32; end -= 32) {
    const a = v128.load(end - 32)
    const b = v128.load(end - 16)
    v128.store(end - 24, a)
    v128.store(end - 8, b)
  }
  for (; end > at; end -= 8) store<u64>(end, load<u64>(end - 8))
}

/**
 * Prefetches two cache lines of each list that will likely be expanded next.
 */
// @ts-ignore: decorator
@inline
function prefetchLists(next: i32, level: i32): void {
  const end = min(next + ABREAST, poolCount)
  let sum: u32 = 0
  for (; next < end; next++) {
    const list = listOf(slotOf(load<u64>(pool + (<usize>next << 3))), level)
    sum += prefetch(list) + prefetch(list, CACHE_LINE)
  }
  keepPrefetched(sum)
}

/**
 * Algorithm 2, with one sorted pool instead of two heaps. Fills the pool with the `ef` nearest found at a level,
 * starting from the entries in it.
 *
 * @param k the number of nearest slots wanted, if fewer than `ef`
 * @param reach the walk stops once a candidate is farther than `reach` x the k-th distance (Al-Jazzazi et al.,
 *   arXiv:2505.15636), even if fewer than `ef` were expanded
 * @param copies how many further copies of a vector the pool may hold, if the vector is among the `near` nearest; a
 *   vector farther away is held once
 */
export function beam(level: i32, ef: i32, k: i32 = ef, reach: f32 = Infinity, copies: i32 = 0, near: i32 = ef): void {
  let next = 0
  while (next < poolCount) {
    let count = 0
    let abreast = 0
    for (; next < poolCount; next++) {
      const place = pool + (<usize>next << 3)
      const key = load<u64>(place)
      if (key & EXPANDED) continue
      if (abreast == ABREAST || isBeyond(distanceOf(key), k, reach)) break
      store<u64>(place, key | EXPANDED)
      count = gatherFresh(slotOf(key), level, count)
      abreast++
    }
    if (abreast == 0) return
    prefetchCodes(scratch + FRESH, count)
    prefetchLists(next, level)
    next = min(offerPrefetched(count, ef, copies, near, limitOf(ef, k, reach)), next)
    if (filter != 0 && isBetterScanned(ef)) return
  }
  // A full pool without enough matching slots.
  if (filter != 0) gaveUp = poolCount == FILTERED_MAX && wantedCount() < ef
}

/**
 * Whether to scan the matching slots instead: the walk has already cost as much as a scan, or it will, because the
 * matching slots are elsewhere. Two checks in a row must show that, because at the first the walk may still be far from
 * the query.
 */
function isBetterScanned(ef: i32): bool {
  if (compared > comparedMax) gaveUp = true
  else if (compared >= nextLook) {
    nextLook <<= 1
    const isAgain = wasElsewhere
    wasElsewhere = isElsewhere(ef)
    gaveUp = isAgain && wasElsewhere
  }
  return gaveUp
}

/** Whether so few of the nearest slots match that the walk would need a larger pool or cost more than a scan. */
function isElsewhere(ef: i32): bool {
  if (poolCount < NEAREST) return false
  let matching = 0
  for (let place = 0; place < NEAREST; place++) matching += i32(isWanted(slotOf(load<u64>(pool + (<usize>place << 3)))))
  const places = (<f64>ef * <f64>NEAREST) / <f64>max(matching, 1)
  return places > <f64>FILTERED_MAX || LEAST_LENGTH * sqrt(places) * sqrt(sqrt(places)) > <f64>comparedMax
}

/** Number of compared slots before the first check whether the matching slots are elsewhere. */
const FIRST_LOOK: i32 = 512

/** Number of nearest slots that this check examines. */
const NEAREST: i32 = 256

/**
 * A walk compares at least this many slots times the places of its pool to the power of 0.75. (Roots are instructions.
 * Other powers would need tables, which a module writes to its memory, and that is the memory of the index.)
 */
const LEAST_LENGTH: f64 = 10

// @ts-ignore: decorator
@inline
function wantedCount(): i32 {
  return poolCount - poolDead - poolCopies
}

/** The lowest bit of a key: whether its slot was expanded. */
const EXPANDED: u64 = 1

/**
 * Number of candidates that are expanded together: the neighbours of the second are fetched from memory while those of
 * the first are scored. Nearly all of a pool is expanded in the end, so this wastes little.
 */
const ABREAST: i32 = 2

/** Appends the unvisited neighbours of a node to the `count` slots of FRESH, and marks them as visited. */
// @ts-ignore: decorator
@inline
function gatherFresh(node: u32, level: i32, count: i32): i32 {
  const list = listOf(node, level)
  const length = lengthAt(level)
  const fresh = scratch + FRESH
  for (let i = 0; i < length; i++) {
    const slot = slotAt(list, i)
    if (slot == NONE) break
    const mark = visited + <usize>slot
    store<u32>(fresh + (<usize>count << 2), slot)
    count += i32(load<u8>(mark) != <u8>epoch)
    store<u8>(mark, <u8>epoch)
  }
  return count
}

/**
 * Whether a candidate is farther than `reach` x the k-th distance. Removed points do not count towards k, because all
 * of them may be nearer than the k-th live point. Copies count once, because they add no information.
 */
// @ts-ignore: decorator
@inline
function isBeyond(distance: f32, k: i32, reach: f32): bool {
  if (filter != 0) return distance > reach * distanceOfKth(k)
  const place = k + poolDead + poolCopies
  return place <= poolCount && distance > reach * distanceOf(load<u64>(pool + (<usize>(place - 1) << 3)))
}

/**
 * With a filter: returns the distance of the k-th matching slot, without copies; infinity while there are fewer. It is
 * cached, and most insertions are behind it, so it is rarely computed.
 */
function distanceOfKth(k: i32): f32 {
  if (kthPlace >= 0) return kthDistance
  kthPlace = i32.MAX_VALUE
  kthDistance = Infinity
  let left = k + poolCopies
  for (let place = 0; place < poolCount; place++) {
    const key = load<u64>(pool + (<usize>place << 3))
    if (!isWanted(slotOf(key)) || --left > 0) continue
    kthPlace = place
    kthDistance = distanceOf(key)
    break
  }
  return kthDistance
}

/** Scores the first `count` slots of FRESH and offers them to the pool. See `beam` for the other parameters. */
export function offerFresh(count: i32, ef: i32, copies: i32, near: i32): void {
  prefetchCodes(scratch + FRESH, count)
  offerPrefetched(count, ef, copies, near, limitOf(ef, ef, Infinity))
}

/**
 * Returns a distance beyond which a slot takes no place in the pool: that of the last entry of a full pool, or `reach` x
 * the k-th distance. The walk would never expand such a slot, since the k-th distance shrinks. The nearest `NEAR_MIN`
 * are kept in any case, because codes order near candidates only roughly.
 */
// @ts-ignore: decorator
@inline
function limitOf(ef: i32, k: i32, reach: f32): f32 {
  if (filter != 0) return wantedCount() >= ef ? lastDistance() : Infinity
  const others = poolDead + poolCopies
  const limit = poolCount >= min(ef + others, PLAIN_MAX) ? lastDistance() : Infinity
  const place = max(k, NEAR_MIN) + others
  if (place > poolCount) return limit
  return min(limit, reach * distanceOf(load<u64>(pool + (<usize>(k + others - 1) << 3))))
}

/** As many candidates beyond k are measured exactly at least. */
const NEAR_MIN: i32 = 32

// @ts-ignore: decorator
@inline
function lastDistance(): f32 {
  return distanceOf(load<u64>(pool + (<usize>(poolCount - 1) << 3)))
}

/**
 * As `offerFresh`, for prefetched codes and slots within a limit. Returns the lowest place that was filled;
 * i32.MAX_VALUE if none was.
 */
// @ts-ignore: decorator
@inline
function offerPrefetched(count: i32, ef: i32, copies: i32, near: i32, limit: f32): i32 {
  let lowest: i32 = i32.MAX_VALUE
  if (count == 0) return lowest
  compared += count
  const kept = scoreWithin(count, limit)
  let sum: u32 = 0
  for (let i = 0; i < kept; i++) sum += prefetch(live + <usize>slotAt(scratch + FRESH, i))
  keepPrefetched(sum)
  for (let i = 0; i < kept; i++) {
    const slot = slotAt(scratch + FRESH, i)
    const key = keyOf(load<f32>(scratch + FRESH_SCORES + (<usize>i << 2)), slot)
    const places = min(ef + poolDead + poolCopies, filter == 0 ? PLAIN_MAX : FILTERED_MAX)
    const at = placeOf(key, places)
    if (at < 0) continue
    const isDead = !isWanted(slot)
    const others = isDead ? 0 : copiesBeside(at, key, copies)
    if (others > 0 && others > (at < near + poolDead + poolCopies ? copies : 0)) continue
    if (filter != 0 && poolCount == FILTERED_MAX) dropLast()
    insertAt(at, key, filter == 0 ? places : FILTERED_MAX)
    if (at < lowest) lowest = at
    poolDead += i32(isDead)
    poolCopies += i32(others > 0)
    if (filter != 0) keepWanted(at, ef, others > 0)
  }
  return lowest
}

/**
 * Scores the first `count` slots of FRESH. Moves those within a limit to its front, and their scores to FRESH_SCORES.
 * There is no branch per slot, because the processor could not predict it: in a walk most slots are beyond the limit.
 *
 * @returns the number of slots within the limit
 */
// @ts-ignore: decorator
@inline
function scoreWithin(count: i32, limit: f32): i32 {
  const fresh = scratch + FRESH
  const scores = scratch + FRESH_SCORES
  // The last quartet is padded with repeats of the last slot, whose scores are ignored.
  const filler = load<u32>(fresh + (<usize>(count - 1) << 2))
  store<u32>(fresh + (<usize>count << 2), filler)
  store<u32>(fresh + (<usize>count << 2), filler, 4)
  store<u32>(fresh + (<usize>count << 2), filler, 8)
  for (let i = 0; i < count; i += 4) {
    const four = fresh + (<usize>i << 2)
    score4(load<u32>(four), load<u32>(four, 4), load<u32>(four, 8), load<u32>(four, 12))
    v128.store(scores + (<usize>i << 2), v128.load(scratch + SCORES))
  }
  let kept = 0
  for (let i = 0; i < count; i++) {
    const at = <usize>i << 2
    const to = <usize>kept << 2
    const score = load<f32>(scores + at)
    store<u32>(fresh + to, load<u32>(fresh + at))
    store<f32>(scores + to, score)
    kept += i32(score <= limit)
  }
  return kept
}

/** With a filter, after an insertion at a place: drops the entries behind the last of `ef` matching slots. */
function keepWanted(at: i32, ef: i32, isCopy: bool): void {
  if (at <= kthPlace || isCopy) kthPlace = -1
  while (wantedCount() > ef) dropLast()
  if (wantedCount() < ef) return
  while (poolDead > 0 && !isWanted(lastSlot())) dropLast()
}

/** Drops the last entry of the pool, which must not be empty. */
function dropLast(): void {
  // A slot that was removed during the walk is still counted as wanted.
  if (poolDead > 0 && !isWanted(lastSlot())) poolDead--
  poolCount--
}

// @ts-ignore: decorator
@inline
function lastSlot(): u32 {
  return slotOf(load<u64>(pool + (<usize>(poolCount - 1) << 3)))
}

/**
 * Counts the live copies of an entry around its place in the pool, up to `most` + 1 on each side. Copies are among the
 * entries at the same distance, which are adjacent. Thousands of different vectors can be at the same distance, as
 * under Hamming, so only a few are compared.
 */
// @ts-ignore: decorator
@inline
function copiesBeside(place: i32, key: u64, most: i32): i32 {
  return copiesFrom(place, 1, key, most) + copiesFrom(place - 1, -1, key, most)
}

// @ts-ignore: decorator
@inline
function copiesFrom(place: i32, step: i32, key: u64, most: i32): i32 {
  let copies = 0
  let others = 0
  for (; place >= 0 && place < poolCount && others < TIES_MAX; place += step) {
    const other = load<u64>(pool + (<usize>place << 3))
    if (!isAsFar(key, other)) break
    if (!isWanted(slotOf(other)) || !areCopies(slotOf(key), slotOf(other))) others++
    else if (++copies > most) break
  }
  return copies
}

/** On each side, comparing ends after this many entries at the same distance that are not copies. */
const TIES_MAX: i32 = 2

// @ts-ignore: decorator
@inline
function isAsFar(key: u64, other: u64): bool {
  return key >>> 32 == other >>> 32
}

/** Whether two entries are copies. Equal distances do not suffice, because vectors of whole numbers often have them. */
// @ts-ignore: decorator
@inline
export function isCopyOf(key: u64, other: u64): bool {
  return isAsFar(key, other) && areCopies(slotOf(key), slotOf(other))
}

/** Makes a slot the only entry of the pool. */
export function startPool(slot: u32): void {
  emptyPool()
  store<u64>(pool, keyOf(score1(slot), slot))
  poolCount = 1
  poolDead = i32(!isWanted(slot))
  visit(slot)
}

export function emptyPool(): void {
  poolCount = 0
  poolDead = 0
  poolCopies = 0
  compared = 0
  gaveUp = false
  nextLook = FIRST_LOOK
  wasElsewhere = false
  kthPlace = -1
}
