import type { FilterSource } from './filter-node.ts'
import type { GeoField } from './geo-field.ts'
import type { NumberField } from './number-field.ts'
import type { PathNode } from './path-tree.ts'
import type { Shapes } from './shapes.ts'
import { codeOf, kindOf, pathIdOf } from './stage-attributes.ts'
import type { TextField } from './text-field.ts'

/**
 * An index as blocks of records, as they are in its file. Numbers are little-endian: u32, or f64 where it says so. Paths and
 * lists of codes are numbered in the order of their blocks.
 *
 *   path      parent + 1 (0: top level) | bytes | name
 *   codes     number | count | count x (path * 8 + kind): what some slots have something in
 *   text      ordinal | bytes | text
 *   slots     slot
 *   ordinals  slot | count | count x ordinal
 *   numbers   slot | count | count x f64
 *   places    slot | count | count x (f64 lat, f64 lon)
 *   shapes    slot | number of its codes
 */
export const blockKinds = [
  'path',
  'codes',
  'shapes',
  'live',
  'images',
  'expiries',
  'versions',
  'present',
  'text',
  'ordinals',
  'number',
  'moment',
  'yes',
  'no',
  'place',
] as const
export type BlockKind = (typeof blockKinds)[number]

export interface Block {
  readonly kind: BlockKind
  /** Number of the path; 0 where there is none. */
  readonly path: number
  readonly bytes: Buffer
}

/** The blocks of an index, in steps. Slots that are touched between them may be wrong. */
export function* indexBlocks(source: FilterSource, shapes: Shapes): Generator<Block, void> {
  const nodes = parentsFirst(source.tree.root)
  const numbers = new Map(nodes.map((node, number) => [node, number]))
  yield* pack('path', 0, nodes, (node, records) => {
    records.u32(node.parent === undefined ? 0 : (numbers.get(node.parent) ?? -1) + 1)
    records.text(Buffer.from(node.name))
  })
  const byId = new Map(nodes.map((node, number) => [node.id, number]))
  yield* shapeBlocks(shapes, byId)
  yield* slotBlocks('live', 0, source.live)
  yield* slotBlocks('images', 0, source.images)
  yield* numberBlocks('expiries', 0, source.expiries)
  yield* numberBlocks('versions', 0, source.versions)
  for (const [number, node] of nodes.entries()) yield* nodeBlocks(node, number)
}

/** A path comes after those that it is below. */
function parentsFirst(root: PathNode): PathNode[] {
  const nodes = [...root.children.values()]
  for (let next = 0; next < nodes.length; next += 1) {
    for (const child of nodes[next]!.children.values()) nodes.push(child)
  }
  return nodes
}

function* shapeBlocks(shapes: Shapes, paths: ReadonlyMap<number, number>): Generator<Block, void> {
  const written = new Set<number>()
  const codes = new Records()
  const slots = new Records()
  for (const slot of shapes.slots()) {
    const number = shapes.numberOf(slot)
    if (number === undefined) continue
    if (!written.has(number)) {
      written.add(number)
      codes.u32(number)
      codes.list(shapes.codesOf(number).map((code) => renumbered(code, paths)))
    }
    slots.u32(slot)
    slots.u32(number)
    if (!codes.isFull && !slots.isFull) continue
    yield { kind: 'codes', path: 0, bytes: codes.take() }
    yield { kind: 'shapes', path: 0, bytes: slots.take() }
  }
  yield { kind: 'codes', path: 0, bytes: codes.take() }
  yield { kind: 'shapes', path: 0, bytes: slots.take() }
}

/** A path that came since is only a touched slot's. */
function renumbered(code: number, paths: ReadonlyMap<number, number>): number {
  return codeOf(paths.get(pathIdOf(code)) ?? 0, kindOf(code))
}

function* nodeBlocks(node: PathNode, number: number): Generator<Block, void> {
  yield* slotBlocks('present', number, node.present)
  if (node.text !== undefined) yield* textBlocks(number, node.text)
  if (node.numbers !== undefined) yield* numberBlocks('number', number, node.numbers)
  if (node.moments !== undefined) yield* numberBlocks('moment', number, node.moments)
  if (node.flags !== undefined) {
    yield* slotBlocks('yes', number, node.flags.yes)
    yield* slotBlocks('no', number, node.flags.no)
  }
  if (node.places !== undefined) yield* placeBlocks(number, node.places)
}

function slotBlocks(kind: BlockKind, path: number, slots: Iterable<number>): Generator<Block, void> {
  return pack(kind, path, slots, (slot, records) => records.u32(slot))
}

function numberBlocks(kind: BlockKind, path: number, field: NumberField): Generator<Block, void> {
  return pack(kind, path, field.column.slots(), (slot, records) => {
    const values = field.valuesOf(slot)
    records.u32(slot)
    records.u32(values.length)
    for (const value of values) records.f64(value)
  })
}

function placeBlocks(path: number, field: GeoField): Generator<Block, void> {
  return pack('place', path, field.slots(), (slot, records) => {
    const [lats, lons] = field.valuesOf(slot)
    records.u32(slot)
    records.u32(lats.length)
    for (const [index, lat] of lats.entries()) {
      records.f64(lat)
      records.f64(lons[index]!)
    }
  })
}

function* textBlocks(path: number, field: TextField): Generator<Block, void> {
  yield* pack('text', path, usedOrdinals(field), (ordinal, records) => {
    records.u32(ordinal)
    records.text(field.dictionary.read(ordinal))
  })
  yield* pack('ordinals', path, field.slots(), (slot, records) => {
    records.u32(slot)
    records.list(field.ordinalsOf(slot))
  })
}

function* usedOrdinals({ dictionary }: TextField): Generator<number, void> {
  for (let ordinal = 0; ordinal < dictionary.end; ordinal += 1) if (dictionary.isUsed(ordinal)) yield ordinal
}

function* pack<Item>(
  kind: BlockKind,
  path: number,
  items: Iterable<Item>,
  write: (item: Item, records: Records) => void,
): Generator<Block, void> {
  const records = new Records()
  for (const item of items) {
    write(item, records)
    if (records.isFull) yield { kind, path, bytes: records.take() }
  }
  if (!records.isEmpty) yield { kind, path, bytes: records.take() }
}

/** Records one after the other. */
class Records {
  #bytes = Buffer.alloc(blockBytes)
  #length = 0

  get isEmpty(): boolean {
    return this.#length === 0
  }

  get isFull(): boolean {
    return this.#length >= blockBytes
  }

  u32(value: number): void {
    this.#makeRoom(4)
    this.#length = this.#bytes.writeUInt32LE(value, this.#length)
  }

  f64(value: number): void {
    this.#makeRoom(8)
    this.#length = this.#bytes.writeDoubleLE(value, this.#length)
  }

  list(values: readonly number[]): void {
    this.u32(values.length)
    for (const value of values) this.u32(value)
  }

  text(bytes: Uint8Array): void {
    this.u32(bytes.length)
    this.#makeRoom(bytes.length)
    this.#bytes.set(bytes, this.#length)
    this.#length += bytes.length
  }

  /** The bytes so far; the next records begin anew. */
  take(): Buffer {
    const taken = this.#bytes.subarray(0, this.#length)
    this.#bytes = Buffer.alloc(blockBytes)
    this.#length = 0
    return taken
  }

  #makeRoom(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return
    const grown = Buffer.alloc(Math.max(this.#bytes.length * 2, this.#length + bytes))
    grown.set(this.#bytes)
    this.#bytes = grown
  }
}

/** Reading the records of a block takes well under a millisecond. */
const blockBytes = 64 * 1024
