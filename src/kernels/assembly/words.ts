import * as format from '../words-format'
import { advanceTo, boundBefore, codeAt, decode, END, find, nextAfter, nextBlock, rewind, skipBlock } from './postings'

/**
 * The best documents of a query of words, exactly: BM25F over one part of an index.
 *
 * Scores are whole numbers: each term adds its weight times its saturation, rounded, and the weights are scaled so that
 * no sum exceeds 31 bits. Sums of whole numbers do not depend on their order, so every way to a score gives the same.
 *
 * MaxScore (Turtle and Flood 1995) over windows of 4,096 documents, as in Lucene 10: in a window, the terms that
 * together cannot lift a document above the k-th best are not essential. The postings of the others are added to an
 * array of scores; only documents that can still win are sought in the lists that are not essential, the greatest
 * bounds first.
 */

const WINDOW: u32 = format.WINDOW

/** Added to a number below 2^51, it rounds to a whole number, whose bits are then the lowest of the sum. */
const ROUND: f64 = 4503599627370496

let documents: u32 = 0
let lengths: usize = 0
let live: usize = 0
let slots: usize = 0
let filter: usize = 0
let frequencies: usize = 0
let normBase: f64 = 0
let normSlope: f64 = 0
let pool: usize = 0
let k: i32 = 0
let count: i32 = 0
let threshold: u32 = 0
let scores: usize = 0
let candidates: usize = 0
let order: usize = 0
let termCount: i32 = 0
let terms: usize = 0

function attach(query: usize): void {
  documents = load<u32>(query, format.QUERY_DOCUMENTS)
  lengths = load<u32>(query, format.QUERY_LENGTHS)
  live = load<u32>(query, format.QUERY_LIVE)
  slots = load<u32>(query, format.QUERY_SLOTS)
  filter = load<u32>(query, format.QUERY_FILTER)
  frequencies = load<u32>(query, format.QUERY_FREQUENCIES)
  normBase = load<f64>(query, format.QUERY_NORM_BASE)
  normSlope = load<f64>(query, format.QUERY_NORM_SLOPE)
  pool = load<u32>(query, format.QUERY_POOL)
  k = load<i32>(query, format.QUERY_K)
  count = load<i32>(query, format.QUERY_COUNT)
  threshold = load<u32>(query, format.QUERY_FLOOR)
  scores = load<u32>(query, format.QUERY_SCORES)
  candidates = load<u32>(query, format.QUERY_CANDIDATES)
  order = load<u32>(query, format.QUERY_ORDER)
  termCount = load<i32>(query, format.QUERY_TERM_COUNT)
  terms = load<u32>(query, format.QUERY_TERMS)
  for (let i = 0; i < termCount; i++) {
    const term = terms + <usize>i * format.TERM_BYTES
    rewind(term)
    store<u32>(order + (<usize>i << 2), <u32>term)
  }
}

// @ts-ignore: decorator
@inline
function termAt(place: i32): usize {
  return load<u32>(order + (<usize>place << 2))
}

// @ts-ignore: decorator
@inline
function boundOf(place: i32): u32 {
  return load<u32>(termAt(place), format.TERM_BOUND)
}

/** What a term adds to the score of a document. */
// @ts-ignore: decorator
@inline
function addend(weight: f64, frequency: f64, document: u32): u32 {
  const norm = normBase + normSlope * <f64>load<f32>(lengths + (<usize>document << 2))
  return <u32>reinterpret<u64>((weight * frequency) / (frequency + norm) + ROUND)
}

// @ts-ignore: decorator
@inline
function frequencyOf(code: u32): f64 {
  return load<f64>(frequencies + (<usize>code << 3))
}

/** Whether a document exists and matches the filter. */
// @ts-ignore: decorator
@inline
function isWanted(document: u32): bool {
  if (((load<u32>(live + <usize>((document >>> 5) << 2)) >>> (document & 31)) & 1) == 0) return false
  if (filter == 0) return true
  const slot = load<u32>(slots + (<usize>document << 2))
  return ((load<u32>(filter + <usize>((slot >>> 5) << 2)) >>> (slot & 31)) & 1) != 0
}

/** Adds the best documents of a part to the pool. */
export function searchWords(query: usize): void {
  attach(query)
  let base: u32 = 0
  while (base < documents) {
    let next: u32 = END
    for (let i = 0; i < termCount; i++) {
      const term = termAt(i)
      advanceTo(term, base)
      next = min(next, nextAfter(term))
    }
    if (next >= documents) break
    // Windows without any posting are skipped.
    if (next > base + WINDOW) base = next
    searchWindow(base, min(base + WINDOW, documents))
    base += WINDOW
  }
  store<i32>(query, count, format.QUERY_COUNT)
}

function searchWindow(base: u32, end: u32): void {
  for (let i = 0; i < termCount; i++) {
    const term = termAt(i)
    store<u32>(term, boundBefore(term, end), format.TERM_BOUND)
  }
  sortByBound()
  let first = 0
  let others: u32 = 0
  while (first < termCount && others + boundOf(first) <= threshold) others += boundOf(first++)
  if (first == termCount) return
  let found = 0
  if (first == termCount - 1) found = gatherOne(termAt(first), base, end, others)
  else {
    for (let i = first; i < termCount; i++) addPostings(termAt(i), base, end)
    found = gather(base, end, threshold - others)
  }
  // Documents that are sought in a list must be in order, and so are the candidates.
  for (let i = first - 1; i >= 0 && found > 0; i--) {
    found = addFound(termAt(i), found, others)
    others -= boundOf(i)
  }
  for (let i = 0; i < found; i++) {
    const candidate = candidates + (<usize>i << 2)
    offer(load<u32>(candidate, CANDIDATE_SCORE), load<u32>(candidate))
  }
}

/** From a candidate to its score. */
const CANDIDATE_SCORE: usize = WINDOW << 2

// @ts-ignore: decorator
@inline
function putCandidate(place: i32, document: u32, score: u32): void {
  const candidate = candidates + (<usize>place << 2)
  store<u32>(candidate, document)
  store<u32>(candidate, score, CANDIDATE_SCORE)
}

/** As `addPostings` and `gather`, if one term is essential: its postings need no scores, and blocks can be passed. */
function gatherOne(term: usize, base: u32, end: u32, others: u32): i32 {
  const weight = load<f64>(term, format.TERM_WEIGHT)
  const buffer = <usize>load<u32>(term, format.TERM_BUFFER)
  const least = threshold - others
  let found = 0
  while (nextAfter(term) < end) {
    if (skipBlock(term, end, least)) continue
    if (!decode(term)) break
    let at = buffer + (<usize>load<i32>(term, format.TERM_AT) << 2)
    const last = buffer + (<usize>load<i32>(term, format.TERM_SIZE) << 2)
    while (at < last && load<u32>(at) < base) at += 4
    let document: u32 = 0
    while (at < last && (document = load<u32>(at)) < end) {
      const score = addend(weight, frequencyOf(load<u32>(at, format.BUFFER_CODES)), document)
      if (score > least && isWanted(document)) putCandidate(found++, document, score)
      at += 4
    }
    store<i32>(term, <i32>((at - buffer) >> 2), format.TERM_AT)
    if (at < last) break
    nextBlock(term)
  }
  return found
}

/** Sorts the terms by what they can add in the window, the least first. There are few, and they are nearly sorted. */
function sortByBound(): void {
  for (let i = 1; i < termCount; i++) {
    const term = termAt(i)
    const bound = load<u32>(term, format.TERM_BOUND)
    let at = i
    while (at > 0 && boundOf(at - 1) > bound) {
      store<u32>(order + (<usize>at << 2), <u32>termAt(at - 1))
      at--
    }
    store<u32>(order + (<usize>at << 2), <u32>term)
  }
}

/** Adds the postings of a term in [base, end) to the scores. */
function addPostings(term: usize, base: u32, end: u32): void {
  const weight = load<f64>(term, format.TERM_WEIGHT)
  const buffer = <usize>load<u32>(term, format.TERM_BUFFER)
  while (nextAfter(term) < end && decode(term)) {
    let at = buffer + (<usize>load<i32>(term, format.TERM_AT) << 2)
    const last = buffer + (<usize>load<i32>(term, format.TERM_SIZE) << 2)
    while (at < last && load<u32>(at) < base) at += 4
    let document: u32 = 0
    while (at < last && (document = load<u32>(at)) < end) {
      const score = scores + (<usize>(document - base) << 2)
      store<u32>(score, load<u32>(score) + addend(weight, frequencyOf(load<u32>(at, format.BUFFER_CODES)), document))
      at += 4
    }
    store<i32>(term, <i32>((at - buffer) >> 2), format.TERM_AT)
    if (at < last) return
    nextBlock(term)
  }
}

/** Makes the wanted documents of a window whose score is above `least` candidates, and clears the scores. */
function gather(base: u32, end: u32, least: u32): i32 {
  const leasts = i32x4.splat(<i32>least)
  const zero = i32x4.splat(0)
  let found = 0
  const last = scores + (<usize>(end - base) << 2)
  for (let at = scores; at < last; at += 64) {
    const a = i32x4.gt_s(v128.load(at), leasts)
    const b = i32x4.gt_s(v128.load(at, 16), leasts)
    const c = i32x4.gt_s(v128.load(at, 32), leasts)
    const d = i32x4.gt_s(v128.load(at, 48), leasts)
    const low = i16x8.narrow_i32x4_s(a, b)
    const high = i16x8.narrow_i32x4_s(c, d)
    let mask = i8x16.bitmask(i8x16.narrow_i16x8_s(low, high))
    while (mask != 0) {
      const place = <usize>ctz(mask)
      const document = base + <u32>((at - scores) >> 2) + <u32>place
      mask &= mask - 1
      if (isWanted(document)) putCandidate(found++, document, load<u32>(at + (place << 2)))
    }
    v128.store(at, zero)
    v128.store(at, zero, 16)
    v128.store(at, zero, 32)
    v128.store(at, zero, 48)
  }
  return found
}

/** Adds a term to the scores of candidates, and drops those that cannot win: `others` is what all terms left can add. */
function addFound(term: usize, found: i32, others: u32): i32 {
  const weight = load<f64>(term, format.TERM_WEIGHT)
  let kept = 0
  for (let i = 0; i < found; i++) {
    const candidate = candidates + (<usize>i << 2)
    const document = load<u32>(candidate)
    let score = load<u32>(candidate, CANDIDATE_SCORE)
    if (score + others <= threshold) continue
    const at = find(term, document)
    if (at >= 0) score += addend(weight, frequencyOf(codeAt(term, at)), document)
    putCandidate(kept++, document, score)
  }
  return kept
}

/** Scores given documents, in ascending order, and adds the best to the pool; see `scoreWords`. */
export function searchDocuments(query: usize, list: usize, size: i32, out: usize): void {
  scoreWords(query, list, size, out)
  for (let i = 0; i < size; i++) {
    const document = load<u32>(list + (<usize>i << 2))
    if (isWanted(document)) offer(load<u32>(out + (<usize>i << 2)), document)
  }
  store<i32>(query, count, format.QUERY_COUNT)
}

/** Writes the scores of given documents, in ascending order, to `out`. */
export function scoreWords(query: usize, list: usize, size: i32, out: usize): void {
  attach(query)
  memory.fill(out, 0, <usize>size << 2)
  for (let t = 0; t < termCount; t++) {
    const term = termAt(t)
    const weight = load<f64>(term, format.TERM_WEIGHT)
    for (let i = 0; i < size; i++) {
      const document = load<u32>(list + (<usize>i << 2))
      const at = find(term, document)
      if (at < 0) continue
      const score = out + (<usize>i << 2)
      store<u32>(score, load<u32>(score) + addend(weight, frequencyOf(codeAt(term, at)), document))
    }
  }
}

/** Writes the code plus one of the first term in each of the given documents, in ascending order; 0 without it. */
export function findWords(query: usize, list: usize, size: i32, out: usize): void {
  attach(query)
  for (let i = 0; i < size; i++) {
    const at = find(terms, load<u32>(list + (<usize>i << 2)))
    store<u32>(out + (<usize>i << 2), at < 0 ? 0 : codeAt(terms, at) + 1)
  }
}

/** Offers a document to the pool. Those of a part come in order, so a later one with an equal score loses. */
// @ts-ignore: decorator
@inline
function offer(score: u32, document: u32): void {
  if (score <= threshold) return
  const key = (<u64>score << 32) | <u64>~document
  if (count < k) {
    siftUp(count, key)
    count++
  } else siftDown(key, count)
  if (count == k) threshold = max(threshold, <u32>(load<u64>(pool) >>> 32))
}

function siftUp(at: i32, key: u64): void {
  while (at > 0) {
    const parent = (at - 1) >> 1
    const other = load<u64>(pool + (<usize>parent << 3))
    if (other <= key) break
    store<u64>(pool + (<usize>at << 3), other)
    at = parent
  }
  store<u64>(pool + (<usize>at << 3), key)
}

/** Puts a key in place of the least of `size`. */
function siftDown(key: u64, size: i32): void {
  let at = 0
  while (true) {
    let child = 2 * at + 1
    if (child >= size) break
    if (child + 1 < size && load<u64>(pool + (<usize>child << 3), 8) < load<u64>(pool + (<usize>child << 3))) child++
    const other = load<u64>(pool + (<usize>child << 3))
    if (other >= key) break
    store<u64>(pool + (<usize>at << 3), other)
    at = child
  }
  store<u64>(pool + (<usize>at << 3), key)
}
