import type { FilterSource } from './filter-nodes.ts'
import type { Block } from './index-blocks.ts'
import { MemoryCount } from './memory-count.ts'
import { NumberField } from './number-field.ts'
import type { PathNode } from './path-tree.ts'
import { LeftOut, type Piece, RecordReader } from './pieces.ts'
import type { Shapes } from './shapes.ts'
import type { SlotColumn } from './slot-column.ts'

/** Loads pieces of a file. */
interface Loading {
  load(piece: Piece, leftOut: LeftOut): void
}

/** Loads the blocks of a file into an empty index. */
export class BlockLoader {
  readonly #source: FilterSource
  readonly #shapes: Shapes
  readonly #leftOut: LeftOut
  /** By number in the file. The number is also the node's id, because the tree is empty at first. */
  readonly #nodes: PathNode[] = []
  readonly #orders = new NumberField(new MemoryCount())

  /** @param leftOut slots to skip: the file may have only a part of them, or nothing */
  constructor(source: FilterSource, shapes: Shapes, leftOut: Iterable<number>) {
    this.#source = source
    this.#shapes = shapes
    this.#leftOut = new LeftOut(leftOut)
  }

  /** The orders that were saved with the index. */
  get orders(): SlotColumn {
    return this.#orders.column
  }

  /** @throws Error if the block contradicts earlier blocks */
  add(block: Block): void {
    if (block.kind === 'path') this.#addPaths(block)
    else this.#target(block.kind, block.path).load(block, this.#leftOut)
  }

  /**
   * Finishes loading, in steps, after the last block: computes derived data. Drops paths and values that only skipped
   * slots had.
   *
   * @throws Error if the blocks contradict each other
   */
  *complete(): Generator<void, void> {
    yield* this.#shapes.complete()
    for (const node of this.#nodes) {
      if (node.text !== undefined) yield* node.text.complete()
      this.#source.tree.dropIfEmpty(node.id)
      yield
    }
  }

  #addPaths({ bytes }: Block): void {
    const records = new RecordReader(bytes)
    const { tree } = this.#source
    while (!records.isAtEnd) {
      const parent = records.u32() - 1
      const name = records.padded().toString()
      this.#nodes.push(tree.child(parent === -1 ? tree.root : this.#node(parent), name))
    }
  }

  #target(kind: Exclude<Block['kind'], 'path'>, path: number): Loading {
    switch (kind) {
      case 'shape':
        return this.#shapes
      case 'live':
        return this.#source.live
      case 'images':
        return this.#source.images
      case 'expiries':
        return this.#source.expiries
      case 'versions':
        return this.#source.versions
      case 'order':
        return this.#orders
      case 'present':
        return this.#node(path).present
      case 'text':
        return this.#node(path).textField()
      case 'number':
        return this.#node(path).numberField()
      case 'moment':
        return this.#node(path).momentField()
      case 'yes':
        return this.#node(path).flagField().yes
      case 'no':
        return this.#node(path).flagField().no
      case 'lat':
        return this.#node(path).placeField().lat
      case 'lon':
        return this.#node(path).placeField().lon
    }
  }

  #node(number: number): PathNode {
    const node = this.#nodes[number]
    if (node === undefined) throw new Error(`the file refers to path ${number}, which it does not define`)
    return node
  }
}
