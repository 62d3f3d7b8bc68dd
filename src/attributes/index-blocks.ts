import { columnPieces } from './column-pieces.ts'
import type { FilterSource } from './filter-nodes.ts'
import { codeOf, kindOf, type PathNode, pathIdOf } from './path-tree.ts'
import { type Piece, type PieceForm, recordPieces } from './pieces.ts'
import type { Shapes } from './shapes.ts'
import type { SlotColumn } from './slot-column.ts'

/**
 * The kinds of blocks in an index file: the structure that a block belongs to. Paths are numbered in the order of their
 * records. Three kinds need an explanation:
 *
 *   path      parent + 1 (0: top level) | bytes | name, padded to a multiple of 4
 *   shape     each value is a list of path * 8 + kind: the attributes that a slot has
 *   order     numbers that are saved with the index but do not belong to it
 */
export const blockKinds = [
  'path',
  'shape',
  'live',
  'images',
  'expiries',
  'versions',
  'order',
  'present',
  'text',
  'number',
  'moment',
  'yes',
  'no',
  'lat',
  'lon',
] as const
type BlockKind = (typeof blockKinds)[number]

/** A piece of a structure of the index. Valid until the index changes. See `pieceForms`. */
export interface Block {
  readonly kind: BlockKind
  readonly form: PieceForm
  /** Number of the path; 0 if the block belongs to no path. */
  readonly path: number
  readonly bytes: Uint8Array
}

/** Yields the blocks of an index and of orders, in steps. Slots touched between steps may be wrong. */
export function* indexBlocks(
  source: FilterSource,
  shapes: Shapes,
  orders: SlotColumn,
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
  yield* blocksOf('live', 0, source.live.pieces())
  yield* blocksOf('images', 0, source.images.pieces())
  yield* blocksOf('expiries', 0, columnPieces(source.expiries.column))
  yield* blocksOf('versions', 0, columnPieces(source.versions.column))
  yield* blocksOf('order', 0, columnPieces(orders))
  for (const [number, node] of nodes.entries()) yield* nodeBlocks(node, number)
}

/** Returns all paths, each after its parent. */
function parentsFirst(root: PathNode): PathNode[] {
  const nodes = [...root.children.values()]
  for (let next = 0; next < nodes.length; next += 1) {
    for (const child of nodes[next]!.children.values()) nodes.push(child)
  }
  return nodes
}

function* nodeBlocks(node: PathNode, number: number): Generator<Block, void> {
  yield* blocksOf('present', number, node.present.pieces())
  if (node.text !== undefined) yield* blocksOf('text', number, node.text.pieces())
  if (node.numbers !== undefined) yield* blocksOf('number', number, columnPieces(node.numbers.column))
  if (node.moments !== undefined) yield* blocksOf('moment', number, columnPieces(node.moments.column))
  if (node.flags !== undefined) {
    yield* blocksOf('yes', number, node.flags.yes.pieces())
    yield* blocksOf('no', number, node.flags.no.pieces())
  }
  if (node.places !== undefined) {
    yield* blocksOf('lat', number, columnPieces(node.places.lat.column))
    yield* blocksOf('lon', number, columnPieces(node.places.lon.column))
  }
}

function* blocksOf(kind: BlockKind, path: number, pieces: Iterable<Piece>): Generator<Block, void> {
  for (const { form, bytes } of pieces) yield { kind, path, form, bytes }
}
