/**
 * The pages of an LMDB file, as far as the check needs them (data version 2, which lmdb 3 writes; see LMDB's mdb.c).
 * Numbers are little-endian. Pages have 2^n bytes. The first two are meta pages, which are written alternately.
 *
 *   page   number u64 | transaction u64 | pad u16 | flags u16 | lower u16, upper u16; in a value: pages u32
 *   meta   head of a page | magic u32 | version u32 | address u64 | map size u64 | tree of free pages |
 *          main tree | last page u64 | transaction u64 | boot id u64
 *   tree   pad u32 (in the tree of free pages: bytes of a page) | flags u16 | depth u16 |
 *          pages of branches, of leaves and of values u64 each | entries u64 | root u64
 *
 *   a page of a tree; lower, upper and the offsets of nodes are counted from the end of its head:
 *   ├────────┼───────────────┼─ lower ──── upper ─┼──────────────────────────────┤
 *   │ head   │ offsets of    │ unused             │ nodes, each of an even size, │
 *   │ 24     │ nodes u16 ... │                    │ with nothing between them    │
 *   └────────┴───────────────┴────────────────────┴──────────────────────────────┘
 *
 *   node of a branch   page of the child u48 | size of key u16 | key; the first may have none
 *   node of a leaf     size of value u32 | flags u16 | size of key u16 | key | value; for a value that is too
 *                      large for a leaf and has its own pages: first page u64 | transaction u64 | pages u64
 */

/** A fault of an LMDB file. */
export class LmdbFault extends Error {}

export interface Tree {
  readonly flags: number
  readonly depth: number
  readonly branchPages: number
  readonly leafPages: number
  readonly valuePages: number
  readonly entries: number
  /** `noPage` in an empty tree. */
  readonly root: number
}

export interface Meta {
  readonly pageBytes: number
  readonly free: Tree
  readonly main: Tree
  readonly lastPage: number
  readonly transaction: number
}

/** @throws LmdbFault if it is not the meta page with this number */
export function readMeta(page: Buffer, number: number): Meta {
  const isMeta =
    readU64(page, 0) === number &&
    page.readUInt16LE(flagsAt) === pageFlags.meta &&
    page.readUInt32LE(headBytes) === magic
  if (!isMeta) throw new LmdbFault(`page ${number} is not a meta page of LMDB`)
  const version = page.readUInt32LE(headBytes + 4)
  if (version !== dataVersion) {
    throw new LmdbFault(`it has LMDB's data version ${version}, this program reads ${dataVersion}`)
  }
  const pageBytes = page.readUInt32LE(freeTreeAt)
  const isPowerOfTwo = (pageBytes & (pageBytes - 1)) === 0
  const free = readTree(page, freeTreeAt)
  const main = readTree(page, mainTreeAt)
  const isSound = free.flags === freeFlags && main.flags === 0
  if (!isSound || !isPowerOfTwo || pageBytes < 512 || pageBytes > 65_536) {
    throw new LmdbFault(`meta page ${number} is damaged`)
  }
  return { pageBytes, free, main, lastPage: readU64(page, 144), transaction: readU64(page, 152) }
}

export function readTree(page: Buffer, at: number): Tree {
  return {
    flags: page.readUInt16LE(at + 4),
    depth: page.readUInt16LE(at + 6),
    branchPages: readU64(page, at + 8),
    leafPages: readU64(page, at + 16),
    valuePages: readU64(page, at + 24),
    entries: readU64(page, at + 32),
    root: readU64(page, at + 40),
  }
}

/** Inexact beyond 2^53, far more than any page, transaction or count. */
export function readU64(page: Buffer, at: number): number {
  return page.readUInt32LE(at) + page.readUInt32LE(at + 4) * 2 ** 32
}

/** @throws LmdbFault unless the offsets of nodes end before the nodes begin */
export function countOfNodes(page: Buffer, number: number): number {
  const lower = page.readUInt16LE(lowerAt)
  const upper = page.readUInt16LE(upperAt)
  if (lower === 0 || lower % 2 !== 0 || lower > upper || headBytes + upper > page.length) {
    throw new LmdbFault(`page ${number} is damaged`)
  }
  return lower / 2
}

/**
 * Returns the offset of node `index` in the page.
 *
 * @throws LmdbFault unless the head of the node is within the page, after the offsets
 */
export function placeOfNode(page: Buffer, number: number, index: number): number {
  const offset = page.readUInt16LE(headBytes + index * 2)
  const isWithin = offset >= page.readUInt16LE(upperAt) && headBytes + offset + nodeBytes <= page.length
  if (!isWithin || offset % 2 !== 0) throw new LmdbFault(`page ${number} has a damaged node`)
  return headBytes + offset
}

export function nodeSize(keyBytes: number, valueBytes: number): number {
  const bytes = nodeBytes + keyBytes + valueBytes
  return bytes + (bytes % 2)
}

/** @throws LmdbFault unless nodes of this total size fill the page: LMDB leaves no gaps between them */
export function checkPacked(page: Buffer, number: number, nodesBytes: number): void {
  if (headBytes + page.readUInt16LE(upperAt) + nodesBytes === page.length) return
  throw new LmdbFault(`page ${number} has damaged nodes`)
}

export const metaBytes = 168
export const headBytes = 24
export const transactionAt = 8
export const flagsAt = 18
const lowerAt = 20
const upperAt = 22
export const valuePagesAt = 20
export const nodeBytes = 8
export const treeBytes = 48
/** Length of the reference to a value that has its own overflow pages. */
export const overflowReferenceBytes = 24
const freeTreeAt = 48
const mainTreeAt = 96
const magic = 0xbeefc0de
const dataVersion = 2

export const noPage: number = 2 ** 64
export const pageFlags = { branch: 1, leaf: 2, value: 4, meta: 8 } as const
export const nodeFlags = { apart: 1, tree: 2 } as const
/** The flag of a tree whose keys are integers. */
const integerKeys = 8
/** Integer keys, and the flag of the environment that its path is that of the file. */
const freeFlags = 0x4000 | integerKeys
