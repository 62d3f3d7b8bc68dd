import { beam, descendTo, distanceOf, keyOf, poolCount, slotOf, startPool } from './beam'
import { isLive, rows } from './columns'
import * as words from '../graph-header'
import {
  CANDIDATES,
  efConstruction,
  resetVisited,
  FRESH,
  header,
  KEPT_FOR_OTHER,
  KEPT_FOR_SELF,
  lengthAt,
  levels,
  LINKED,
  listOf,
  lock,
  m,
  m0,
  NONE,
  pool,
  SCORES,
  scratch,
  slotAt,
  states,
  unlock,
  uppers,
  visit,
} from './graph-memory'
import { areCopies, setQuerySlot, encodeSlot, ROWS, score1, scoreFrom } from './distance-kinds'

/**
 * A hierarchical navigable small world graph over the slots of one segment (Malkov and Yashunin, arXiv:1603.09320:
 * algorithms 1, 2, 4 and 5). It departs from the paper as follows. In parentheses: the sections of
 * docs/decisions/index.md with the measurements.
 *
 *    1. Distances are between integer codes, or between float32 rows if codes do not distinguish vectors. Only the
 *       nearest candidates are reranked by exact distance (Codes; What a graph is measured on; How much is measured
 *       exactly).
 *    2. A walk has one sorted pool instead of two heaps, and expands two candidates at a time (What made it fast).
 *    3. A walk can stop before `ef` candidates were expanded (Where a walk ends).
 *    4. A node's level is a function of its slot, so that a reused slot keeps its upper lists (Deletes).
 *    5. The search for neighbours on a level starts from the nearest node of the level above only, not from all nodes
 *       found there. Not measured.
 *    6. Algorithm 4 neither extends its candidates nor keeps pruned ones, so a list may stay short. Not measured.
 *    7. Removed points stay in the graph until they are repaired out, and walks pass through them. In a full list, a
 *       new neighbour takes the place of a removed point if there is one; otherwise the list is reselected (Deletes).
 *    8. A new node that no list has kept still gets one link, and unreachable nodes are reconnected (Deletes).
 *    9. A copy of a vector in the graph is linked to that vector only, in a chain. Copies with upper levels are linked
 *       in full (Copies).
 *   10. Several threads insert concurrently, and any number search meanwhile without locks (Threads).
 *   11. A search with a filter walks through points that do not match, but only matching points count towards its
 *       results (docs/decisions/filters.md).
 *
 * What makes 10 safe:
 *
 *   - Each thread has its own instance of this module over the same memory, and so its own variables.
 *   - A list of neighbours is a run of slots that ends at NONE or at its full length. It changes in place,
 *     under its node's spin lock, one aligned word at a time: a concurrent reader sees old and new entries mixed,
 *     each of which is a slot with codes and lists.
 *   - A node's codes and lists are written before anything links to it.
 *
 * graph-memory.ts has the layout, columns.ts the vectors, distance-kinds.ts the distances, and beam.ts the walk.
 * graph-search.ts, rerank.ts and graph-repair.ts are built on them.
 */

/**
 * Algorithm 4: takes candidates in ascending order, and keeps those that are nearer to the query vector than to any
 * candidate kept before. So the few links of a list point in different directions. Writes slots to `into`.
 *
 * Copies of the query vector are as near to it as to each other, and would take all places. A vector with more copies
 * than places would become an island. So the rule does not apply to copies: a few of them are kept, after the others.
 *
 * @param candidates keys, ascending
 * @param self the slot of the query vector; it must be the current query at the call, but may not be afterwards
 * @param kept how many slots `into` already holds
 * @returns how many `into` holds afterwards, at most `limit`
 */
export function selectNeighbours(
  candidates: usize,
  count: i32,
  limit: i32,
  into: usize,
  distanceKind: i32,
  self: u32,
  kept: i32 = 0,
): i32 {
  const alike = score1(self)
  let copies = 0
  while (copies < count && distanceOf(load<u64>(candidates + (<usize>copies << 3))) <= alike) copies++
  const apart = copies == 0 ? limit : max(limit - COPIES_MAX, kept)
  for (let i = copies; i < count && kept < apart; i++) {
    const key = load<u64>(candidates + (<usize>i << 3))
    const slot = slotOf(key)
    if (slot == self || !isLive(slot)) continue
    const distance = distanceOf(key)
    store<u32>(into + (<usize>kept << 2), slot)
    if (isApart(slot, distance, into, kept, distanceKind)) kept++
  }
  return copies == 0 ? kept : keepCopies(candidates, copies, min(limit, kept + COPIES_MAX), into, self, kept)
}

/** Maximum number of copies that a list keeps. */
const COPIES_MAX: i32 = 4

/** Keeps the copies with the nearest slot numbers, so that the lists of several copies contain different copies. */
function keepCopies(candidates: usize, copies: i32, limit: i32, into: usize, self: u32, kept: i32): i32 {
  let nearest: u32 = 0
  for (; kept < limit; kept++) {
    const beyond = nearest
    nearest = u32.MAX_VALUE
    let best = NONE
    for (let i = 0; i < copies; i++) {
      const slot = slotOf(load<u64>(candidates + (<usize>i << 3)))
      // A higher slot counts as nearer than a lower one at the same difference, so that no two gaps are equal.
      const gap = slot > self ? ((slot - self) << 1) : ((self - slot) << 1) + 1
      if (slot == self || gap <= beyond || gap >= nearest || !isLive(slot)) continue
      nearest = gap
      best = slot
    }
    if (best == NONE) break
    store<u32>(into + (<usize>kept << 2), best)
  }
  return kept
}

/** Whether no kept slot is nearer to a slot than `distance`; `into` has room for three more. */
// @ts-ignore: decorator
@inline
function isApart(slot: u32, distance: f32, into: usize, kept: i32, distanceKind: i32): bool {
  if (kept == 0) return true
  setQuerySlot(slot, distanceKind)
  for (let i = 0; i < kept; i += 4) {
    scoreFrom(into, i, kept)
    const scores = v128.load(scratch + SCORES)
    if (v128.any_true(f32x4.lt(scores, f32x4.splat(distance)))) return false
  }
  return true
}

/** Writes a list: its slots, then NONE up to its length. */
export function writeList(list: usize, length: i32, from: usize, count: i32): void {
  for (let i = 0; i < length; i++) {
    store<u32>(list + (<usize>i << 2), i < count ? slotAt(from, i) : NONE)
  }
}

/**
 * Adds `slot` to the list of `to`. A full list is reselected. Returns whether the list then contains `slot`. A copy of
 * `to` joins the chain of copies behind `to` instead, if there is one.
 */
export function linkBack(to: u32, slot: u32, level: i32, distanceKind: i32): bool {
  if (areCopies(to, slot) && joinCopies(to, slot, level)) return true
  const length = lengthAt(level)
  const list = listOf(to, level)
  lock(to)
  const at = placeIn(list, length, slot)
  let named = true
  if (at < length) atomic.store<u32>(list + (<usize>at << 2), slot)
  else named = chooseAnew(to, slot, list, length, distanceKind)
  unlock(to)
  return named
}

/**
 * Returns the place of a slot in a list, or a place that it can take: the end, or that of a removed point. Returns the
 * list's length if there is no such place. Replacing one removed point leaves the others for a repair, which uses their
 * lists. Reselecting the list would drop them all.
 */
function placeIn(list: usize, length: i32, slot: u32): i32 {
  const at = endOf(list, length, slot)
  if (at < length) return at
  // This loop comes last, because reading whether a slot is live is a cache miss.
  for (let i = 0; i < length; i++) if (!isLive(slotAt(list, i))) return i
  return length
}

/** Returns the place of a slot in a list, or else the end of the list, which is its length if the list is full. */
// @ts-ignore: decorator
@inline
function endOf(list: usize, length: i32, slot: u32): i32 {
  let at = 0
  while (at < length && slotAt(list, at) != NONE && slotAt(list, at) != slot) at++
  return at
}

/**
 * Inserts a slot between `to` and the copy of both to which `to` links. So every slot links to only a few copies of
 * itself, and all copies form one chain that a walk can follow.
 *
 * @returns whether there was such a copy
 */
function joinCopies(to: u32, slot: u32, level: i32): bool {
  const list = listOf(to, level)
  const length = lengthAt(level)
  for (let at = placeOfCopy(list, length, to, slot); at >= 0; at = placeOfCopy(list, length, to, slot)) {
    if (insertBetween(to, slot, at, level)) return true
  }
  return false
}

/**
 * Inserts a slot between `to` and the entry `at` of its list. Every slot that was reachable before stays reachable.
 *
 * @returns false if the entry has changed meanwhile; nothing was then replaced
 */
function insertBetween(to: u32, slot: u32, at: i32, level: i32): bool {
  const place = listOf(to, level) + (<usize>at << 2)
  const next = load<u32>(place)
  if (next == slot) return true
  // The list has become shorter. Readers would not see an entry behind its end.
  if (next == NONE) return false
  // The slot gets its link before anything links to it, so a concurrent walk misses nothing. Only one lock is held at a
  // time, because two slots may be inserted before each other.
  if (isLive(next)) addEntry(slot, next, level)
  lock(to)
  const isNamed = isIn(listOf(to, level), lengthAt(level), slot)
  const isUnchanged = load<u32>(place) == next
  if (isUnchanged && !isNamed) atomic.store<u32>(place, slot)
  unlock(to)
  return isUnchanged || isNamed
}

/** Whether a list, up to its end or to `length`, contains a slot. */
export function isIn(list: usize, length: i32, slot: u32): bool {
  for (let i = 0; i < length; i++) {
    const each = slotAt(list, i)
    if (each == slot) return true
    if (each == NONE) return false
  }
  return false
}

/** Returns the place of a live copy of `owner`, other than `but`, in its list; -1 if there is none. */
function placeOfCopy(list: usize, length: i32, owner: u32, but: u32): i32 {
  for (let i = 0; i < length; i++) {
    const each = slotAt(list, i)
    if (each == NONE) return -1
    if (each != but && isLive(each) && areCopies(each, owner)) return i
  }
  return -1
}

/** Adds an entry to a list. Replaces the last entry if the list is full. */
function addEntry(slot: u32, entry: u32, level: i32): void {
  const list = listOf(slot, level)
  const length = lengthAt(level)
  lock(slot)
  const at = min(placeIn(list, length, entry), length - 1)
  atomic.store<u32>(list + (<usize>at << 2), entry)
  unlock(slot)
}

function chooseAnew(to: u32, slot: u32, list: usize, length: i32, distanceKind: i32): bool {
  const fresh = scratch + FRESH
  memory.copy(fresh, list, <usize>length << 2)
  store<u32>(fresh + (<usize>length << 2), slot)
  sortByDistance(to, fresh, length + 1, distanceKind)
  const into = scratch + KEPT_FOR_OTHER
  const kept = selectNeighbours(scratch + CANDIDATES, length + 1, length, into, distanceKind, to)
  writeList(list, length, into, kept)
  for (let i = 0; i < kept; i++) if (slotAt(into, i) == slot) return true
  return false
}

/** Writes the keys of slots to CANDIDATES, in ascending order of their distance from `from`. */
function sortByDistance(from: u32, slots: usize, count: i32, distanceKind: i32): void {
  const keys = scratch + CANDIDATES
  setQuerySlot(from, distanceKind)
  for (let i = 0; i < count; i += 4) {
    scoreFrom(slots, i, count)
    const end = min(count - i, 4)
    for (let j = 0; j < end; j++) {
      const key = keyOf(load<f32>(scratch + SCORES + (<usize>j << 2)), slotAt(slots, i + j))
      let to = keys + (<usize>(i + j) << 3)
      while (to > keys && load<u64>(to - 8) > key) {
        store<u64>(to, load<u64>(to - 8))
        to -= 8
      }
      store<u64>(to, key)
    }
  }
}

/**
 * Algorithm 1: encodes a slot and links it into the graph, at `level` and below. A slot that was linked before has the
 * same level again and keeps its upper lists.
 *
 * @returns 0, or 1 if there was no room for upper lists and the slot was linked at level 0 alone
 */
export function insertSlot(slot: u32, level: i32, distanceKind: i32): i32 {
  // If rows are on disk, the slot was encoded when it was filled.
  if (distanceKind < ROWS && rows != 0) encodeSlot(slot)
  let full = 0
  if (level > 0 && !reserveUpper(slot, level)) {
    level = 0
    full = 1
  }
  store<u8>(levels + <usize>slot, <u8>level)
  for (let each = 0; each <= level; each++) writeList(listOf(slot, each), lengthAt(each), 0, 0)

  const mine = (<i64>level << 32) | <i64>slot
  let entry = atomic.load<i64>(header + words.ENTRY)
  if (entry < 0) {
    entry = atomic.cmpxchg<i64>(header + words.ENTRY, -1, mine)
    if (entry < 0) {
      atomic.store<u8>(states + <usize>slot, LINKED)
      return full
    }
  }
  linkInto(slot, level, entry, distanceKind)
  atomic.store<u8>(states + <usize>slot, LINKED)
  while (<i32>(entry >> 32) < level) {
    const seen = atomic.cmpxchg<i64>(header + words.ENTRY, entry, mine)
    if (seen == entry) break
    entry = seen
  }
  return full
}

/**
 * The walks of a construction stop at this multiple of the m-th distance, which is a squared one for all distance kinds
 * of construction. Walks of `efConstruction` steps found no better neighbours: recall of the graph is the same, and
 * building takes 0.8 of the time (docs/decisions/index.md).
 */
const CONSTRUCTION_REACH: f32 = 1.2

/**
 * Links a slot at each level to its neighbours there, and these to it. Nothing links to the slot before its own lists
 * are complete, and nothing at an upper level before its neighbours at level 0 do. A concurrent walk that comes down
 * through the slot would otherwise find an empty list at level 0, and end there.
 */
function linkInto(slot: u32, level: i32, entry: i64, distanceKind: i32): void {
  setQuerySlot(slot, distanceKind)
  let at = descendTo(level, entry)
  const top = min(<i32>(entry >> 32), level)
  for (let each = top; each >= 0; each--) {
    resetVisited()
    setQuerySlot(slot, distanceKind)
    startPool(at)
    visit(slot)
    beam(each, efConstruction, m, CONSTRUCTION_REACH)
    at = slotOf(load<u64>(pool))
    if (level == 0 && linkToCopy(slot, distanceKind)) return
    const own = scratch + KEPT_FOR_SELF
    const kept = selectNeighbours(pool, poolCount, m, own, distanceKind, slot)
    writeList(listOf(slot, each), lengthAt(each), own, kept)
  }
  // The pool is that of level 0.
  if (!linkBackFrom(slot, 0, distanceKind)) linkFromPool(slot)
  for (let each = 1; each <= top; each++) linkBackFrom(slot, each, distanceKind)
}

/** Adds a slot to the lists of its neighbours at a level. Returns whether any of them then contains it. */
function linkBackFrom(slot: u32, level: i32, distanceKind: i32): bool {
  const own = scratch + KEPT_FOR_SELF
  const length = lengthAt(level)
  memory.copy(own, listOf(slot, level), <usize>length << 2)
  let named = false
  for (let i = 0; i < length && slotAt(own, i) != NONE; i++) {
    if (linkBack(slotAt(own, i), slot, level, distanceKind)) named = true
  }
  return named
}

/**
 * Links a slot to a copy of it in the pool, if there is one, and to nothing else. Both have the same neighbours, so the
 * links of one suffice. A vector that is stored a thousand times then takes no more places in other lists than a vector
 * that is stored once, and a walk does not visit the same neighbourhood a thousand times.
 *
 * @returns whether there was a copy
 */
export function linkToCopy(slot: u32, distanceKind: i32): bool {
  const alike = score1(slot)
  for (let i = 0; i < poolCount; i++) {
    const key = load<u64>(pool + (<usize>i << 3))
    if (distanceOf(key) > alike) return false
    const copy = slotOf(key)
    if (copy == slot || !isLive(copy) || !areCopies(copy, slot)) continue
    addEntry(slot, copy, 0)
    linkBack(copy, slot, 0, distanceKind)
    return true
  }
  return false
}

/**
 * Links to a slot that no list has kept, at level 0, from the nearest live slot of the pool with a free place.
 * Otherwise searches could not reach a point far from all others. If all lists are full, the slot is inserted between
 * the nearest slot and the last entry of that slot's list, so that nothing else becomes unreachable.
 */
export function linkFromPool(slot: u32): void {
  const last = <usize>(m0 - 1) << 2
  let nearest = NONE
  for (let i = 0; i < poolCount; i++) {
    const parent = slotOf(load<u64>(pool + (<usize>i << 3)))
    if (parent == slot || !isLive(parent)) continue
    if (nearest == NONE) nearest = parent
    if (load<u32>(listOf(parent, 0) + last) == NONE && append(parent, slot)) return
  }
  if (nearest == NONE) nearest = slotOf(load<u64>(pool))
  if (nearest == slot) return
  for (let tries = 0; tries < 4; tries++) {
    // If no entry of the pool is live, nothing above has looked for a free place in the nearest list.
    if (append(nearest, slot) || insertBetween(nearest, slot, m0 - 1, 0)) return
  }
}

/** Writes a slot to the end of a list at level 0, unless the list contains it. Returns false if the list is full. */
function append(parent: u32, slot: u32): bool {
  const list = listOf(parent, 0)
  lock(parent)
  // Another unreachable slot that has been reconnected since may already link to it.
  const at = endOf(list, m0, slot)
  if (at < m0) atomic.store<u32>(list + (<usize>at << 2), slot)
  unlock(parent)
  return at < m0
}

/** Reserves the upper lists of a slot, unless it already has them. Returns false if there is no room. */
function reserveUpper(slot: u32, level: i32): bool {
  const at = uppers + (<usize>slot << 2)
  if (load<u32>(at) != 0) return true
  const first = atomic.add<u32>(header + words.UPPER_NEXT, <u32>level)
  if (first + <u32>level > load<u32>(header + words.UPPER_LIMIT)) return false
  store<u32>(at, first)
  return true
}

