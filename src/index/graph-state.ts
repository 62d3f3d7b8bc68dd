import type { GraphColumns, SegmentHandle } from './segment.ts'

/** What a slot is to a graph. */
export const slotStates = { absent: 0, linked: 1, leaving: 2 } as const

/** The end of a list of links that is not full. */
export const noLink = 0xffff_ffff

/** Byte offsets of a graph's header, as graph.ts of the kernels reads them. */
const fields = [
  'codeWidth',
  'paddedDimension',
  'm',
  'm0',
  'efConstruction',
  'codes',
  'codeStride',
  'links',
  'uppers',
  'upperBlocks',
  'locks',
  'live',
  'states',
  'rows',
  'sequences',
  'norms',
  'upperNext',
  'upperLimit',
] as const
const entryOffset = 72
const levelsOffset = 84
const ringOffset = 88
const ringLengthOffset = 92
const ringHeadOffset = 96
const ringTailOffset = 104
const slotsOffset = 112

/** Writes the header of an empty graph. */
export function writeGraphHeader({ memory, layout }: SegmentHandle, graph: number): void {
  const columns = layout.graphs[graph]!
  const words: Record<(typeof fields)[number], number> = {
    ...layout,
    ...columns,
    m0: 2 * layout.m,
    codeStride: layout.codeBytes,
    upperNext: 1,
    upperLimit: columns.upperCount,
  }
  const view = new DataView(memory.buffer)
  for (const [index, field] of fields.entries())
    view.setUint32(columns.header + index * 4, words[field], true)
  view.setUint32(columns.header + levelsOffset, columns.levels, true)
  view.setUint32(columns.header + ringOffset, columns.ring, true)
  view.setUint32(columns.header + ringLengthOffset, layout.capacity, true)
  view.setBigInt64(columns.header + entryOffset, -1n, true)
}

/** The words of a graph's header and the columns that change, as views. */
export class GraphState {
  readonly columns: GraphColumns
  readonly #buffer: ArrayBufferLike
  readonly #capacity: number
  readonly #m: number

  constructor({ memory, layout }: SegmentHandle, graph: number) {
    this.columns = layout.graphs[graph]!
    this.#buffer = memory.buffer
    this.#capacity = layout.capacity
    this.#m = layout.m
  }

  get states(): Uint8Array {
    return new Uint8Array(this.#buffer, this.columns.states, this.#capacity)
  }

  get levels(): Uint8Array {
    return new Uint8Array(this.#buffer, this.columns.levels, this.#capacity)
  }

  get uppers(): Uint32Array {
    return new Uint32Array(this.#buffer, this.columns.uppers, this.#capacity)
  }

  get links(): Uint32Array {
    return new Uint32Array(this.#buffer, this.columns.links, this.#capacity * 2 * this.#m)
  }

  get upperBlocks(): Uint32Array {
    return new Uint32Array(this.#buffer, this.columns.upperBlocks, this.columns.upperCount * this.#m)
  }

  get ring(): Uint32Array {
    return new Uint32Array(this.#buffer, this.columns.ring, this.#capacity)
  }

  /** Level and slot of the entry point; undefined while the graph is empty. */
  get entry(): { readonly level: number; readonly slot: number } | undefined {
    const value = Atomics.load(this.#words64(entryOffset), 0)
    return value < 0n ? undefined : { level: Number(value >> 32n), slot: Number(value & 0xffff_ffffn) }
  }

  set entry(entry: { readonly level: number; readonly slot: number } | undefined) {
    const value = entry === undefined ? -1n : (BigInt(entry.level) << 32n) | BigInt(entry.slot)
    Atomics.store(this.#words64(entryOffset), 0, value)
  }

  get upperNext(): number {
    return Atomics.load(this.#words32(64), 0)
  }

  set upperNext(value: number) {
    Atomics.store(this.#words32(64), 0, value)
  }

  set slotCount(value: number) {
    Atomics.store(this.#words32(slotsOffset), 0, value)
  }

  get slotCount(): number {
    return Atomics.load(this.#words32(slotsOffset), 0)
  }

  /** Publishes how many slots ever entered and left the ring. */
  setRing(head: number, tail: number): void {
    Atomics.store(this.#words64(ringTailOffset), 0, BigInt(tail))
    Atomics.store(this.#words64(ringHeadOffset), 0, BigInt(head))
  }

  #words32(offset: number): Int32Array {
    return new Int32Array(this.#buffer, this.columns.header + offset, 1)
  }

  #words64(offset: number): BigInt64Array {
    return new BigInt64Array(this.#buffer, this.columns.header + offset, 1)
  }
}
