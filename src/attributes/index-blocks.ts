import type { FilterSource } from './filter-nodes.ts'
import { MemoryCount } from './memory-count.ts'
import { NumberField } from './number-field.ts'
import { codeOf, type Fields, kindOf, type PathNode, pathIdOf } from './path-tree.ts'
import { LeftOut, type Piece, type PieceForm, RecordReader, recordPieces } from './pieces.ts'
import type { Shapes } from './shapes.ts'

/** A piece of a structure of the index. Valid until the index changes. See `pieceForms`. */
export interface Block {
  readonly kind: BlockKind
  readonly form: PieceForm
  /** Number of the path; 0 if the block belongs to no path. Paths are numbered in the order of their records. */
  readonly path: number
  readonly bytes: Uint8Array
}

/** A structure that is stored in pieces. */
interface Stored {
  pieces(): Iterable<Piece>
  load(piece: Piece, leftOut: LeftOut): void
}

type FieldOf = <Type extends keyof Fields>(type: Type) => Fields[Type] | undefined

/** The structures of a path. `fieldOf` returns its field of a type. */
const pathStructures = {
  present: ({ present }: PathNode): Stored => present,
  text: (_: PathNode, fieldOf: FieldOf): Stored | undefined => fieldOf('text'),
  number: (_: PathNode, fieldOf: FieldOf): Stored | undefined => fieldOf('number'),
  date: (_: PathNode, fieldOf: FieldOf): Stored | undefined => fieldOf('date'),
  true: (_: PathNode, fieldOf: FieldOf): Stored | undefined => fieldOf('boolean')?.yes,
  false: (_: PathNode, fieldOf: FieldOf): Stored | undefined => fieldOf('boolean')?.no,
  lat: (_: PathNode, fieldOf: FieldOf): Stored | undefined => fieldOf('geo')?.lat,
  lon: (_: PathNode, fieldOf: FieldOf): Stored | undefined => fieldOf('geo')?.lon,
}

type PathKind = keyof typeof pathStructures
const pathKinds = Object.keys(pathStructures) as readonly PathKind[]
/** The structures of `FilterSource` that are stored. */
const sourceKinds = ['live', 'images', 'expiries', 'versions'] as const

/**
 * The kinds of blocks in an index file: the structure that a block belongs to. Three kinds need an explanation:
 *
 *   path      parent + 1 (0: top level) | bytes | name, padded to a multiple of 4
 *   shape     each value is a list of path * 8 + kind: the attributes that a slot has
 *   order     numbers that are saved with the index but do not belong to it
 */
export const blockKinds: readonly BlockKind[] = ['path', 'shape', 'order', ...sourceKinds, ...pathKinds]
type BlockKind = 'path' | 'shape' | 'order' | (typeof sourceKinds)[number] | PathKind

/** Yields the blocks of an index and of orders, in steps. Slots touched between steps may be wrong. */
export function* indexBlocks(
  source: FilterSource,
  shapes: Shapes,
  orders: NumberField,
): Generator<Block, void> {
  const nodes = parentsFirst(source.tree.root)
  const numbers = new Map(nodes.map((node, number) => [node, number]))
  const paths = recordPieces('records', nodes, (node, records) => {
    records.u32(node.parent === undefined ? 0 : (numbers.get(node.parent) ?? -1) + 1)
    records.padded(Buffer.from(node.name))
  })
  yield* blocksOf('path', 0, paths)
  const byId = new Map(nodes.map((node, number) => [node.id, number]))
  // Only touched slots can have a path that was added since, and the reader leaves touched slots out.
  const numbered = (code: number): number => codeOf(byId.get(pathIdOf(code)) ?? 0, kindOf(code))
  yield* blocksOf('shape', 0, shapes.pieces(numbered))
  yield* blocksOf('order', 0, orders.pieces())
  for (const kind of sourceKinds) yield* blocksOf(kind, 0, source[kind].pieces())
  for (const [number, node] of nodes.entries()) {
    for (const kind of pathKinds) {
      const structure = pathStructures[kind](node, (type) => node.fields[type])
      if (structure !== undefined) yield* blocksOf(kind, number, structure.pieces())
    }
  }
}

/** Returns all paths, each after its parent. */
function parentsFirst(root: PathNode): PathNode[] {
  const nodes = [...root.children.values()]
  for (let next = 0; next < nodes.length; next += 1) {
    for (const child of nodes[next]!.children.values()) nodes.push(child)
  }
  return nodes
}

function* blocksOf(kind: BlockKind, path: number, pieces: Iterable<Piece>): Generator<Block, void> {
  for (const { form, bytes } of pieces) yield { kind, path, form, bytes }
}

/** Loads the blocks of a file into an empty index. */
export class BlockLoader {
  readonly orders: NumberField = new NumberField(new MemoryCount())
  readonly #source: FilterSource
  readonly #shapes: Shapes
  readonly #leftOut: LeftOut
  /** By number in the file. The number is also the node's id, because the tree is empty at first. */
  readonly #nodes: PathNode[] = []

  /** @param leftOut slots to skip: the file may have only a part of them, or nothing */
  constructor(source: FilterSource, shapes: Shapes, leftOut: Iterable<number>) {
    this.#source = source
    this.#shapes = shapes
    this.#leftOut = new LeftOut(leftOut)
  }

  /** @throws Error if the block contradicts earlier blocks */
  add(block: Block): void {
    if (block.kind === 'path') this.#addPaths(block)
    else this.#structureOf(block.kind, block.path).load(block, this.#leftOut)
  }

  /**
   * Finishes loading, in steps, after the last block: computes derived data. Drops paths and values that only skipped
   * slots had.
   *
   * @throws Error if the blocks contradict each other
   */
  *complete(): Generator<void, void> {
    yield* this.#shapes.complete()
    for (const { id, fields } of this.#nodes) {
      if (fields.text !== undefined) yield* fields.text.complete()
      this.#source.tree.dropIfEmpty(id)
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

  #structureOf(kind: Exclude<BlockKind, 'path'>, path: number): Pick<Stored, 'load'> {
    if (kind === 'shape') return this.#shapes
    if (kind === 'order') return this.orders
    if (!isPathKind(kind)) return this.#source[kind]
    const node = this.#node(path)
    return pathStructures[kind](node, (type) => node.field(type))!
  }

  #node(number: number): PathNode {
    const node = this.#nodes[number]
    if (node === undefined) throw new Error(`the file refers to path ${number}, which it does not define`)
    return node
  }
}

function isPathKind(kind: BlockKind): kind is PathKind {
  return kind in pathStructures
}
