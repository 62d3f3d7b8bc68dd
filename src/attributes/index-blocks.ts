import { columnPieces } from './column-pieces.ts'
import type { FilterSource } from './filter-node.ts'
import type { PathNode } from './path-tree.ts'
import { type Piece, type PieceForm, recordPieces } from './pieces.ts'
import type { Shapes } from './shapes.ts'
import { codeOf, kindOf, pathIdOf } from './stage-attributes.ts'

/**
 * What blocks of the file of an index belong to. Paths are numbered in the order of their records:
 *
 *   path      parent + 1 (0: top level) | bytes | name, padded to a multiple of 4
 *   shape     values are lists of path * 8 + kind: what some slots have something in
 *   order     entries that the index itself has not
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
export type BlockKind = (typeof blockKinds)[number]

/** A piece of something that is in the index, valid until its next change: see `pieceForms`. */
export interface Block {
  readonly kind: BlockKind
  readonly form: PieceForm
  /** Number of the path; 0 where there is none. */
  readonly path: number
  readonly bytes: Uint8Array
}

/** The blocks of an index, in steps. Slots that are touched between them may be wrong. */
export function* indexBlocks(source: FilterSource, shapes: Shapes): Generator<Block, void> {
  const nodes = parentsFirst(source.tree.root)
  const numbers = new Map(nodes.map((node, number) => [node, number]))
  const paths = recordPieces('records', nodes, (node, records) => {
    records.u32(node.parent === undefined ? 0 : (numbers.get(node.parent) ?? -1) + 1)
    records.padded(Buffer.from(node.name))
  })
  yield* blocksOf('path', 0, paths)
  const byId = new Map(nodes.map((node, number) => [node.id, number]))
  // A path that came since is only a touched slot's.
  const numbered = (code: number): number => codeOf(byId.get(pathIdOf(code)) ?? 0, kindOf(code))
  yield* blocksOf('shape', 0, shapes.pieces(numbered))
  yield* blocksOf('live', 0, source.live.pieces())
  yield* blocksOf('images', 0, source.images.pieces())
  yield* blocksOf('expiries', 0, columnPieces(source.expiries.column))
  yield* blocksOf('versions', 0, columnPieces(source.versions.column))
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

/** Numbers of slots that are not the index's, as its file has them. */
export function* orderBlocks(
  orders: Iterable<readonly [slot: number, order: number]>,
): Generator<Block, void> {
  const pieces = recordPieces('entries', orders, ([slot, order], records) => {
    records.u32(slot)
    records.f64(order)
  })
  yield* blocksOf('order', 0, pieces)
}

function* blocksOf(kind: BlockKind, path: number, pieces: Iterable<Piece>): Generator<Block, void> {
  for (const { form, bytes } of pieces) yield { kind, path, form, bytes }
}
