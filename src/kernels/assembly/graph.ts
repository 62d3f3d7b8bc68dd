import { beam, descendTo, distanceOf, keyOf, poolCount, slotOf, startPool } from './beam'
import { isLive, rows } from './columns'
import * as words from '../graph-header'
import {
  CANDIDATES,
  efConstruction,
  forget,
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
import { areCopies, askFrom, encodeSlot, ROWS, score1, scoreFrom } from './measure'

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
 * graph-memory.ts has the layout, measure.ts the distances, beam.ts the walk, graph-search.ts and
 * graph-repair.ts what is built on them.
 */

/**
 * Algorithm 4: of candidates in ascending order keeps those that are nearer to the asked-for vector than to
 * any kept before, so that a list's few places point in different directions. Writes slots to `into`.
 *
 * Copies of the asked-for vector are as near to it as to each other, and would take all places: points of which
 * there are more copies than places would be an island. A few are kept, apart from the rule and after the others.
 *
 * @param candidates keys, ascending
 * @param self the slot of the asked-for vector, from which measures are at the call, and are not afterwards
 * @param kept how many slots stand in `into` already
 * @returns how many stand there then, at most `limit`
 */
export function selectNeighbours(
  candidates: usize,
  count: i32,
  limit: i32,
  into: usize,
  measure: i32,
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
    if (isApart(slot, distance, into, kept, measure)) kept++
  }
  return copies == 0 ? kept : keepCopies(candidates, copies, min(limit, kept + COPIES_MAX), into, self, kept)
}

/** Copies that a list keeps at most. */
const COPIES_MAX: i32 = 4

/** Keeps the copies whose slots are next to `self`, so that the lists of several copies name others, not all the same. */
function keepCopies(candidates: usize, copies: i32, limit: i32, into: usize, self: u32, kept: i32): i32 {
  let nearest: u32 = 0
  for (; kept < limit; kept++) {
    const beyond = nearest
    nearest = u32.MAX_VALUE
    let best = NONE
    for (let i = 0; i < copies; i++) {
      const slot = slotOf(load<u64>(candidates + (<usize>i << 3)))
      // Ahead of one on the other side at the same distance, so that no two have the same.
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

/** Whether a slot is nearer than `distance` to none of the kept ones; `into` has room for three more. */
// @ts-ignore: decorator
@inline
function isApart(slot: u32, distance: f32, into: usize, kept: i32, measure: i32): bool {
  if (kept == 0) return true
  askFrom(slot, measure)
  for (let i = 0; i < kept; i += 4) {
    scoreFrom(into, i, kept)
    const scores = v128.load(scratch + SCORES)
    if (v128.any_true(f32x4.lt(scores, f32x4.splat(distance)))) return false
  }
  return true
}

/** Writes a list: its slots, then NONE. */
export function writeList(list: usize, length: i32, from: usize, count: i32): void {
  for (let i = 0; i < length; i++) {
    store<u32>(list + (<usize>i << 2), i < count ? slotAt(from, i) : NONE)
  }
}

/**
 * Adds `slot` to the list of `to`, which is chosen anew when it is full; gives whether `slot` stands in it then.
 * A copy joins those that `to` leads to already.
 */
export function linkBack(to: u32, slot: u32, level: i32, measure: i32): bool {
  if (areCopies(to, slot) && joinCopies(to, slot, level)) return true
  const length = lengthAt(level)
  const list = listOf(to, level)
  lock(to)
  const at = placeIn(list, length, slot)
  let named = true
  if (at < length) atomic.store<u32>(list + (<usize>at << 2), slot)
  else named = chooseAnew(to, slot, list, length, measure)
  unlock(to)
  return named
}

/**
 * Where a list names a slot, or else could: at its end, or in place of a slot whose point is gone. Its length where it is full of
 * others. Giving away the place of one removed point leaves the others for a repair, which finds what lay behind them; to
 * choose the list anew would drop them all.
 */
function placeIn(list: usize, length: i32, slot: u32): i32 {
  let at = 0
  while (at < length && slotAt(list, at) != NONE && slotAt(list, at) != slot) at++
  if (at < length) return at
  // Not before: whether a slot lives is a cache miss for each.
  for (let i = 0; i < length; i++) if (!isLive(slotAt(list, i))) return i
  return length
}

/**
 * Puts a slot between another one and the copy of both that this one names: so every slot names a few copies of itself at
 * most, and they are one chain that a walk can follow, however many there are.
 *
 * @returns whether there was such a copy
 */
function joinCopies(to: u32, slot: u32, level: i32): bool {
  const list = listOf(to, level)
  const length = lengthAt(level)
  for (let at = placeOfCopy(list, length, to, slot); at >= 0; at = placeOfCopy(list, length, to, slot)) {
    if (putBetween(to, slot, at, level)) return true
  }
  return false
}

/**
 * Puts a slot between another one and the entry `at` of its list: whoever could be reached before still can.
 *
 * @returns false where the entry has changed meanwhile, and nothing was put in its place
 */
function putBetween(to: u32, slot: u32, at: i32, level: i32): bool {
  const place = listOf(to, level) + (<usize>at << 2)
  const next = load<u32>(place)
  // First the way on, then the way to it: whoever walks along meanwhile misses nothing. One lock at a time, as two
  // slots may be put before each other.
  if (isLive(next)) nameBeside(slot, next, level)
  lock(to)
  const isNamed = isIn(listOf(to, level), lengthAt(level), slot)
  const isUnchanged = load<u32>(place) == next
  if (isUnchanged && !isNamed) atomic.store<u32>(place, slot)
  unlock(to)
  return isUnchanged || isNamed
}

/** Whether a list, up to its end or to `length`, names a slot. */
export function isIn(list: usize, length: i32, slot: u32): bool {
  for (let i = 0; i < length; i++) {
    const each = slotAt(list, i)
    if (each == slot) return true
    if (each == NONE) return false
  }
  return false
}

/** Where a list names a live copy of the slot that it belongs to, other than `but`; -1 where it does not. */
function placeOfCopy(list: usize, length: i32, owner: u32, but: u32): i32 {
  for (let i = 0; i < length; i++) {
    const each = slotAt(list, i)
    if (each == NONE) return -1
    if (each != but && isLive(each) && areCopies(each, owner)) return i
  }
  return -1
}

/** Adds an entry to a list, in place of the last one where it is full. */
function nameBeside(slot: u32, entry: u32, level: i32): void {
  const list = listOf(slot, level)
  const length = lengthAt(level)
  lock(slot)
  const at = min(placeIn(list, length, entry), length - 1)
  atomic.store<u32>(list + (<usize>at << 2), entry)
  unlock(slot)
}

function chooseAnew(to: u32, slot: u32, list: usize, length: i32, measure: i32): bool {
  const fresh = scratch + FRESH
  memory.copy(fresh, list, <usize>length << 2)
  store<u32>(fresh + (<usize>length << 2), slot)
  sortByDistance(to, fresh, length + 1, measure)
  const into = scratch + KEPT_FOR_OTHER
  const kept = selectNeighbours(scratch + CANDIDATES, length + 1, length, into, measure, to)
  writeList(list, length, into, kept)
  for (let i = 0; i < kept; i++) if (slotAt(into, i) == slot) return true
  return false
}

/** Writes the keys of slots to CANDIDATES, ascending by their distance to `from`. */
function sortByDistance(from: u32, slots: usize, count: i32, measure: i32): void {
  const keys = scratch + CANDIDATES
  askFrom(from, measure)
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
 * Algorithm 1: codes a slot and links it into the graph, at `level` and below. A slot that was linked before
 * keeps its level, and with it the room of its upper lists.
 *
 * @returns 0, or 1 when there is no room for upper lists and the slot was linked at level 0 alone
 */
export function insertSlot(slot: u32, level: i32, measure: i32): i32 {
  // Without rows in memory a slot was coded when it was filled.
  if (measure < ROWS && rows != 0) encodeSlot(slot)
  let full = 0
  if (level > 0 && !haveUpper(slot, level)) {
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
  linkInto(slot, level, entry, measure)
  atomic.store<u8>(states + <usize>slot, LINKED)
  while (<i32>(entry >> 32) < level) {
    const seen = atomic.cmpxchg<i64>(header + words.ENTRY, entry, mine)
    if (seen == entry) break
    entry = seen
  }
  return full
}

function linkInto(slot: u32, level: i32, entry: i64, measure: i32): void {
  askFrom(slot, measure)
  let at = descendTo(level, entry)
  for (let each = min(<i32>(entry >> 32), level); each >= 0; each--) {
    forget()
    askFrom(slot, measure)
    startPool(at)
    visit(slot)
    beam(each, efConstruction)
    at = slotOf(load<u64>(pool))
    if (level == 0 && followCopy(slot, measure)) return
    let named = false
    const own = scratch + KEPT_FOR_SELF
    const kept = selectNeighbours(pool, poolCount, m, own, measure, slot)
    const list = listOf(slot, each)
    const length = lengthAt(each)
    lock(slot)
    // Threads that insert beside this one may have linked to the slot from a level above already.
    writeList(list, length, own, kept)
    unlock(slot)
    for (let i = 0; i < kept; i++) {
      if (linkBack(slotAt(own, i), slot, each, measure)) named = true
    }
    if (each == 0 && !named) nameInPool(slot)
  }
}

/**
 * Links a slot to the copy of it that stands in the pool, and to nothing else: what is near one is near the other, and the
 * links of one will do. So a vector that is stored a thousand times over takes no more room in the lists of others than
 * one that is stored once, and leads a walk no thousand times to the same places.
 *
 * @returns whether there is one
 */
export function followCopy(slot: u32, measure: i32): bool {
  const alike = score1(slot)
  for (let i = 0; i < poolCount; i++) {
    const key = load<u64>(pool + (<usize>i << 3))
    if (distanceOf(key) > alike) return false
    const copy = slotOf(key)
    if (copy == slot || !isLive(copy) || !areCopies(copy, slot)) continue
    nameBeside(slot, copy, 0)
    linkBack(copy, slot, 0, measure)
    return true
  }
  return false
}

/**
 * Puts a slot that no list has taken into the list of the nearest live slot of the pool that has a place free, at level 0: a
 * point far from all others would not be found. Where all lists are full it goes between the nearest and the last entry of
 * its list, so that nothing else is cut off.
 */
export function nameInPool(slot: u32): void {
  const last = <usize>(m0 - 1) << 2
  let nearest = NONE
  for (let i = 0; i < poolCount; i++) {
    const parent = slotOf(load<u64>(pool + (<usize>i << 3)))
    if (parent == slot || !isLive(parent)) continue
    if (nearest == NONE) nearest = parent
    const list = listOf(parent, 0)
    if (load<u32>(list + last) != NONE) continue
    lock(parent)
    // A parent that was cut off together with the slot, and is linked again by now, may name it already.
    const at = placeIn(list, m0, slot)
    if (at < m0) atomic.store<u32>(list + (<usize>at << 2), slot)
    unlock(parent)
    if (at < m0) return
  }
  if (nearest == NONE) nearest = slotOf(load<u64>(pool))
  if (nearest == slot) return
  for (let tries = 0; tries < 4; tries++) if (putBetween(nearest, slot, m0 - 1, 0)) return
}

/** Makes sure that a slot has room for its upper lists. */
function haveUpper(slot: u32, level: i32): bool {
  const at = uppers + (<usize>slot << 2)
  if (load<u32>(at) != 0) return true
  const first = atomic.add<u32>(header + words.UPPER_NEXT, <u32>level)
  if (first + <u32>level > load<u32>(header + words.UPPER_LIMIT)) return false
  store<u32>(at, first)
  return true
}

