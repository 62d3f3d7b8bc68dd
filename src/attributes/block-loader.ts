import type { FilterSource } from './filter-node.ts'
import type { Block } from './index-blocks.ts'
import type { NumberField } from './number-field.ts'
import type { PathNode } from './path-tree.ts'
import type { Shapes } from './shapes.ts'
import type { SlotGroup } from './slot-group.ts'
import { codeOf, kindOf, pathIdOf } from './stage-attributes.ts'

/** Puts the blocks of a file into an empty index. */
export class BlockLoader {
  readonly #source: FilterSource
  readonly #shapes: Shapes
  readonly #leftOut: ReadonlySet<number>
  readonly #nodes: PathNode[] = []
  /** By number: the codes of a list, and those of the file's texts of the path that is being read. */
  readonly #codes = new Map<number, number[]>()
  readonly #ordinals = new Map<number, number>()
  #textPath = -1

  /** @param leftOut slots of which the file may have nothing, or a part */
  constructor(source: FilterSource, shapes: Shapes, leftOut: ReadonlySet<number>) {
    this.#source = source
    this.#shapes = shapes
    this.#leftOut = leftOut
  }

  add({ kind, path, bytes }: Block): void {
    const records = new RecordReader(bytes)
    while (!records.isAtEnd) this.#addRecord(kind, path, records)
  }

  /** Once all blocks are there: drops paths and values that only left out slots had. */
  finish(): void {
    for (const node of this.#nodes) {
      node.text?.dropUnused()
      this.#source.tree.dropIfEmpty(node.id)
    }
  }

  #addRecord(kind: Block['kind'], path: number, records: RecordReader): void {
    if (kind === 'path') this.#addPath(records)
    else if (kind === 'codes')
      this.#codes.set(
        records.u32(),
        records.list().map((code) => this.#renumbered(code)),
      )
    else if (kind === 'text') this.#addText(path, records)
    else {
      const slot = records.u32()
      this.#addSlot(kind, path, this.#leftOut.has(slot) ? undefined : slot, records)
    }
  }

  #addPath(records: RecordReader): void {
    const parent = records.u32() - 1
    const name = records.bytes(records.u32()).toString()
    this.#nodes.push(
      this.#source.tree.child(parent === -1 ? this.#source.tree.root : this.#node(parent), name),
    )
  }

  #addText(path: number, records: RecordReader): void {
    if (path !== this.#textPath) this.#ordinals.clear()
    this.#textPath = path
    const ordinal = records.u32()
    this.#ordinals.set(ordinal, this.#node(path).textField().dictionary.add(records.bytes(records.u32())))
  }

  /** @param slot undefined to read past the record */
  #addSlot(kind: Block['kind'], path: number, slot: number | undefined, records: RecordReader): void {
    const field = this.#numberField(kind, path)
    if (kind === 'shapes') this.#addShape(slot, records)
    else if (kind === 'ordinals') this.#addOrdinals(path, slot, records)
    else if (kind === 'place') this.#addPlaces(path, slot, records)
    else if (field !== undefined) {
      const values = records.numbers(records.u32())
      if (slot !== undefined) field.assign(slot, values)
    } else if (slot !== undefined) this.#group(kind, path).add(slot)
  }

  #addShape(slot: number | undefined, records: RecordReader): void {
    const codes = this.#codes.get(records.u32())
    if (slot !== undefined) this.#shapes.set(slot, known(codes))
  }

  #addOrdinals(path: number, slot: number | undefined, records: RecordReader): void {
    const ordinals = records.list()
    if (slot === undefined) return
    const here = ordinals.map((each) => known(this.#ordinals.get(each)))
    this.#node(path).textField().assign(slot, here)
  }

  #addPlaces(path: number, slot: number | undefined, records: RecordReader): void {
    const values = records.numbers(2 * records.u32())
    const places = Array.from({ length: values.length / 2 }, (_, index) => ({
      lat: values[index * 2]!,
      lon: values[index * 2 + 1]!,
    }))
    if (slot !== undefined) this.#node(path).placeField().assign(slot, places)
  }

  #numberField(kind: Block['kind'], path: number): NumberField | undefined {
    if (kind === 'expiries') return this.#source.expiries
    if (kind === 'versions') return this.#source.versions
    if (kind === 'number') return this.#node(path).numberField()
    return kind === 'moment' ? this.#node(path).momentField() : undefined
  }

  #group(kind: Block['kind'], path: number): SlotGroup {
    if (kind === 'live') return this.#source.live
    if (kind === 'images') return this.#source.images
    if (kind === 'yes') return this.#node(path).flagField().yes
    return kind === 'no' ? this.#node(path).flagField().no : this.#node(path).present
  }

  #node(number: number): PathNode {
    return known(this.#nodes[number])
  }

  #renumbered(code: number): number {
    return codeOf(this.#node(pathIdOf(code)).id, kindOf(code))
  }
}

/** @throws Error for what a file refers to and does not have */
function known<Item>(item: Item | undefined): Item {
  if (item === undefined) throw new Error('it refers to something that it does not have')
  return item
}

class RecordReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length
  }

  u32(): number {
    this.#at += 4
    return this.#bytes.readUInt32LE(this.#at - 4)
  }

  bytes(length: number): Buffer {
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }

  // Loops: most lists have one entry, for which `Array.from` would take most of the time of a start.
  list(): number[] {
    const list: number[] = []
    for (let left = this.u32(); left > 0; left -= 1) list.push(this.u32())
    return list
  }

  numbers(count: number): number[] {
    const list: number[] = []
    for (let left = count; left > 0; left -= 1) {
      this.#at += 8
      list.push(this.#bytes.readDoubleLE(this.#at - 8))
    }
    return list
  }
}
