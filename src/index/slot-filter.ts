import { GraphState } from './graph-state.ts'
import { laneAddress, type SegmentHandle } from './segment.ts'

/**
 * The slots that match a filter: a bitmap in shared memory. The main thread may change it while other threads read it.
 * A reader that needs a consistent state compares the versions.
 */
export interface SlotBits {
  /** Unique in the process among the bitmaps in use. */
  readonly id: number
  /** Changes whenever the bitmap changes. */
  readonly version: number
  /** Slot s is bit s % 32 of word s / 32. Slots beyond the end do not match. */
  readonly words: Uint32Array<SharedArrayBuffer>
}

/** Returns an id for a bitmap that no other one in use has. Main thread only. */
export function newFilterId(): number {
  filterIds = filterIdAfter(filterIds)
  return filterIds
}

/** Threads read ids as 32-bit numbers, and 0 means no filter. No bitmap is used for as long as all other ids last. */
export function filterIdAfter(id: number): number {
  return id >= 0x7fff_ffff ? 1 : id + 1
}

let filterIds = 0

/** A bitmap with the number of its set bits, which are live slots that match. */
export interface SlotFilter extends SlotBits {
  readonly count: number
}

/** A thread's copy of a filter in its lane of a segment, where the kernels can read it. */
export class LaneFilter {
  readonly #segment: SegmentHandle
  readonly #address: number
  readonly #state: GraphState
  #id = 0
  #version = 0

  constructor(segment: SegmentHandle, thread: number) {
    this.#segment = segment
    this.#address = laneAddress(segment.layout, thread) + segment.layout.lane.filter
    this.#state = new GraphState(segment, 0)
  }

  /** Copies the segment's part of a filter to the lane, unless it is already there. Returns its address. */
  place(filter: SlotBits): number {
    if (this.#id === filter.id && this.#version === filter.version) return this.#address
    const { memory, firstSlot } = this.#segment
    // The room beyond was never written, so slots that are filled later do not match.
    const words = Math.ceil(this.#state.slotCount / 32)
    copyBits(filter.words, firstSlot, new Uint32Array(memory.buffer, this.#address, words))
    this.#id = filter.id
    this.#version = filter.version
    return this.#address
  }
}

/** Copies the bits of a bitmap, from bit `first` on, to `target`. Bits beyond the end of the bitmap are 0. */
export function copyBits(words: Uint32Array, first: number, target: Uint32Array): void {
  const word = Math.floor(first / 32)
  const shift = first % 32
  if (shift === 0) {
    const part = words.subarray(word, word + target.length)
    target.set(part)
    target.fill(0, part.length)
    return
  }
  for (let at = 0; at < target.length; at += 1) {
    const low = words[word + at] ?? 0
    const high = words[word + at + 1] ?? 0
    target[at] = (low >>> shift) | (high << (32 - shift))
  }
}

/** Returns how many bits in [from, to) of a bitmap are set. */
export function countBits(words: Uint32Array, from: number, to: number): number {
  let count = 0
  for (let at = from >>> 5; at << 5 < to; at += 1) {
    let word = words[at] ?? 0
    const first = at * 32
    if (first < from) word &= -1 << (from - first)
    if (to - first < 32) word &= ~(-1 << (to - first))
    count += bitsOf(word)
  }
  return count
}

function bitsOf(word: number): number {
  const pairs = word - ((word >>> 1) & 0x5555_5555)
  const fours = (pairs & 0x3333_3333) + ((pairs >>> 2) & 0x3333_3333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24
}
