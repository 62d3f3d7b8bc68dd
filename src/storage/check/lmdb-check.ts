import { fstatSync, readSync } from 'node:fs'

/**
 * How LMDB orders keys: as native integers of 8 bytes, or `scoped`: 8 bytes that it compares one by one, which is the
 * order of a big-endian number.
 */
type KeyKind = 'u64' | 'scoped'

/** Reads the entries of a tree. `LmdbCheck` itself only checks the structure. */
export interface TreeReader {
  readonly keys: KeyKind
  /** Whether `visit` receives values that have their own pages. */
  readonly readsLongValues?: boolean
  /**
   * Called for each entry. `page` is valid until it returns; without `readsLongValues`, it only contains short values.
   *
   * @param scope the first half of a scoped key, of which `key` is the second half; 0 for other keys
   */
  visit(key: number, page: Buffer, valueAt: number, valueBytes: number, scope: number): void
}

/**
 * Checks an LMDB file with plain reads, because LMDB maps the file and trusts every byte. A missing page ends the
 * process with SIGBUS. A damaged page ends it with SIGSEGV, or causes wrong results or writes over pages in use.
 *
 * When `finish` returns, LMDB is certain to use the newest transaction, every tree that was read has the shape, order
 * and counts that it claims, and no page is in use twice, or in use and free. Branches are read one by one; leaves and
 * the first pages of long values are read in the order of the file.
 */
export class LmdbCheck {
  readonly #file: number
  /** Number of whole pages in the file. */
  readonly #pageCount: number
  readonly #meta: Meta
  readonly #isUsed: Uint8Array
  /** By page: 1 + the position of a leaf of the current tree in `#froms`; 0 for any other page. */
  readonly #leaves: Uint32Array
  /** By page: the number of pages of the long value that begins there. */
  readonly #values: Uint32Array
  readonly #window: Buffer
  /** The first key that each leaf may have. The keys of a leaf end before that of the next leaf. */
  #froms: Key[] = []
  #found = { branchPages: 0, leafPages: 0, valuePages: 0, entries: 0 }

  /** @throws LmdbFault if the meta pages are damaged, or LMDB would not use the newest transaction */
  constructor(file: number) {
    this.#file = file
    const first = readMeta(this.#bytes(0, metaBytes), 0)
    const second = readMeta(this.#bytes(first.pageBytes, metaBytes), 1)
    checkTurns(first, second)
    this.#meta = first.transaction > second.transaction ? first : second
    this.#pageCount = Math.floor(fstatSync(file).size / first.pageBytes)
    const windowPages = Math.min(this.#pageCount, Math.ceil(windowBytes / first.pageBytes))
    this.#window = Buffer.allocUnsafeSlow(windowPages * first.pageBytes)
    this.#isUsed = new Uint8Array(this.#pageCount).fill(1, 0, 2)
    this.#leaves = new Uint32Array(this.#pageCount)
    this.#values = new Uint32Array(this.#pageCount)
    this.#checkRoot(this.#meta)
  }

  /** Returns the trees of the tables in the file, which may only have these tables. Missing tables have no tree. */
  tables(names: readonly string[]): Map<string, Tree> {
    const { root, depth, branchPages, leafPages, valuePages, entries } = this.#meta.main
    const found = new Map<string, Tree>()
    if (root === noPage) return found
    this.#use(root, 1)
    const page = this.#page(root, pageFlags.leaf)
    const count = countOfNodes(page, root)
    const isLeaf = depth === 1 && branchPages === 0 && leafPages === 1 && valuePages === 0
    if (!isLeaf || entries !== count) throw new LmdbFault(`page ${root} does not match its meta page`)
    let nodesBytes = 0
    for (let index = 0; index < count; index += 1) {
      const at = placeOfNode(page, root, index)
      const keyBytes = page.readUInt16LE(at + 6)
      const valueAt = at + nodeBytes + keyBytes
      // A name ends with a zero byte. Names are in order, so this name must be after all that were found.
      const name = names.find((each) => page.toString('latin1', at + nodeBytes, valueAt) === `${each}\0`)
      const isTable = page.readUInt32LE(at) === treeBytes && page.readUInt16LE(at + 4) === nodeFlags.tree
      const tree = isTable && valueAt + treeBytes <= page.length ? readTree(page, valueAt) : undefined
      const isOrdered = name !== undefined && [...found.keys()].every((each) => each < name)
      if (!isOrdered || tree?.flags !== 0) throw new LmdbFault(`page ${root} has a damaged table`)
      found.set(name, tree)
      nodesBytes += nodeSize(keyBytes, treeBytes)
    }
    checkPacked(page, root, nodesBytes)
    return found
  }

  /** Reads and checks a whole tree. */
  read(tree: Tree, reader: TreeReader): void {
    const { root, depth } = tree
    this.#froms = []
    this.#found = { branchPages: 0, leafPages: 0, valuePages: 0, entries: 0 }
    if (root === noPage ? depth !== 0 : depth < 1 || depth > depthMax) {
      throw new LmdbFault(`a tree has a depth of ${depth}`)
    }
    if (root !== noPage) {
      this.#descend(root, depth, 0, Number.POSITIVE_INFINITY, reader)
      this.#inOrder(this.#leaves, (page, number) => this.#leaf(page, number, reader))
      this.#leaves.fill(0)
    }
    const { branchPages, leafPages, valuePages, entries } = this.#found
    const hasCounts = branchPages === tree.branchPages && leafPages === tree.leafPages
    if (!hasCounts || valuePages !== tree.valuePages || entries !== tree.entries) {
      throw new LmdbFault(
        `a tree should have ${tree.entries} entries, but has ${entries}, or its pages differ`,
      )
    }
  }

  /** Checks the lists of free pages and the heads of long values. Call it after all tables were read. */
  finish(): void {
    const ranges: PageRange[] = []
    const visit: TreeReader['visit'] = (transaction, page, at, bytes) => {
      if (transaction > this.#meta.transaction) throw new LmdbFault('a list of free pages is damaged')
      for (const range of readFreePages(page, at, bytes)) ranges.push(range)
    }
    this.read(this.#meta.free, { keys: 'u64', readsLongValues: true, visit })
    this.#inOrder(this.#values, (page, number) => {
      this.#checkHead(page, number, pageFlags.value)
      // LMDB trusts this number when it frees the value.
      if (page.readUInt32LE(valuePagesAt) !== this.#values[number]) throw strange(number)
    })
    this.#checkFree(ranges)
  }

  /**
   * Checks that the newest transaction wrote the root of the main tree. Each of our transactions changes a table, and
   * so writes this root. The check detects a meta page that only seems the newest because its transaction number is
   * damaged. The older meta page cannot be checked: if writing it fails, LMDB leaves the roots of the failed
   * transaction there, with the number of the transaction before.
   */
  #checkRoot({ main, transaction }: Meta): void {
    if (main.root === noPage && transaction === 0) return
    const root = this.#page(main.root, pageFlags.leaf)
    if (readU64(root, transactionAt) !== transaction) throw strange(main.root)
  }

  /** Reads branches. Leaves are read later, in the order of the file. */
  #descend(number: number, depth: number, from: Key, end: Key, reader: TreeReader): void {
    this.#use(number, 1)
    if (depth === 1) {
      this.#found.leafPages += 1
      this.#leaves[number] = this.#froms.push(from)
      return
    }
    this.#found.branchPages += 1
    const page = this.#page(number, pageFlags.branch)
    const count = countOfNodes(page, number)
    // LMDB ends the process if a table's branch has only one child.
    if (count === 1 && reader.keys !== 'u64') throw new LmdbFault(`page ${number} is damaged`)
    let nodesBytes = 0
    let childFrom = from
    for (let index = 0; index < count; index += 1) {
      const at = placeOfNode(page, number, index)
      nodesBytes += nodeSize(page.readUInt16LE(at + 6), 0)
      const childEnd = index === count - 1 ? end : branchKey(page, number, index + 1, reader)
      if (!(childFrom < childEnd && childEnd <= end)) throw disordered(number)
      this.#descend(page.readUIntLE(at, 6), depth - 1, childFrom, childEnd, reader)
      childFrom = childEnd
    }
    checkPacked(page, number, nodesBytes)
  }

  #leaf(page: Buffer, number: number, reader: TreeReader): void {
    this.#checkHead(page, number, pageFlags.leaf)
    const place = this.#leaves[number]! - 1
    const from = this.#froms[place]!
    const end = this.#froms[place + 1] ?? Number.POSITIVE_INFINITY
    const { keys } = reader
    const count = countOfNodes(page, number)
    let last: Key | undefined
    let nodesBytes = 0
    for (let index = 0; index < count; index += 1) {
      const at = placeOfNode(page, number, index)
      const valueBytes = page.readUInt32LE(at)
      const flags = page.readUInt16LE(at + 4)
      const isApart = flags === nodeFlags.apart
      const keyAt = at + nodeBytes
      const bytesHere = isApart ? overflowReferenceBytes : valueBytes
      const isSound = page.readUInt16LE(at + 6) === keyBytes && (isApart || flags === 0)
      if (!isSound || keyAt + keyBytes + bytesHere > page.length) {
        throw new LmdbFault(`page ${number} has a damaged node`)
      }
      const key = readKey(page, keyAt, keys)
      const isAfter = last === undefined ? key >= from : key > last
      if (!isAfter || key >= end) throw disordered(number)
      last = key
      nodesBytes += nodeSize(keyBytes, bytesHere)
      if (isApart) this.#longValue(page, keyAt, valueBytes, reader)
      else visit(reader, page, keyAt, page, keyAt + keyBytes, valueBytes)
    }
    checkPacked(page, number, nodesBytes)
    this.#found.entries += count
  }

  #longValue(page: Buffer, keyAt: number, bytes: number, reader: TreeReader): void {
    const { pageBytes } = this.#meta
    const at = keyAt + keyBytes
    const first = readU64(page, at)
    const count = Math.ceil((headBytes + bytes) / pageBytes)
    if (readU64(page, at + 16) !== count)
      throw new LmdbFault(`a value of ${bytes} bytes does not have ${count} pages`)
    this.#use(first, count)
    this.#values[first] = count
    this.#found.valuePages += count
    const value = reader.readsLongValues ? this.#bytes(first * pageBytes, count * pageBytes) : page
    visit(reader, page, keyAt, value, headBytes, bytes)
  }

  /** Checks the free pages. Those at the end may never have been written. */
  #checkFree(ranges: readonly PageRange[]): void {
    const { lastPage } = this.#meta
    const beyond = new Set<number>()
    for (const { first, count } of ranges) {
      for (let page = first; page < first + count; page += 1) {
        if (page < this.#pageCount) this.#use(page, 1)
        else if (page > lastPage || beyond.has(page)) throw new LmdbFault(`page ${page} cannot be free`)
        else beyond.add(page)
      }
    }
    if (lastPage >= this.#pageCount + beyond.size) {
      throw new LmdbFault(`it is cut off: it has ${this.#pageCount} of ${lastPage + 1} pages`)
    }
  }

  #use(first: number, count: number): void {
    const last = first + count - 1
    if (!(first >= 2 && last <= this.#meta.lastPage)) throw new LmdbFault(`page ${last} cannot exist`)
    if (last >= this.#pageCount) throw new LmdbFault(`it is cut off before page ${last}`)
    for (let page = first; page <= last; page += 1) {
      if (this.#isUsed[page] !== 0) throw new LmdbFault(`page ${page} is in use twice`)
      this.#isUsed[page] = 1
    }
  }

  #page(number: number, flags: number): Buffer {
    const { pageBytes } = this.#meta
    if (number >= this.#pageCount) throw new LmdbFault(`it is cut off before page ${number}`)
    const page = this.#bytes(number * pageBytes, pageBytes)
    this.#checkHead(page, number, flags)
    return page
  }

  #checkHead(page: Buffer, number: number, flags: number): void {
    const isOurs = readU64(page, 0) === number && readU64(page, transactionAt) <= this.#meta.transaction
    if (!isOurs || page.readUInt16LE(flagsAt) !== flags) throw strange(number)
  }

  /** Reads the pages for which `wanted` has a number, combining reads of pages near each other. */
  #inOrder(wanted: Uint32Array, visit: (page: Buffer, number: number) => void): void {
    const { pageBytes } = this.#meta
    const window = this.#window
    const most = window.length / pageBytes
    for (let first = 0; first < wanted.length; first += 1) {
      if (wanted[first] === 0) continue
      let end = first + 1
      for (let page = end; page < first + most && page < end + gapPages; page += 1) {
        if (page < wanted.length && wanted[page] !== 0) end = page + 1
      }
      this.#read(window.subarray(0, (end - first) * pageBytes), first * pageBytes)
      for (let page = first; page < end; page += 1) {
        const at = (page - first) * pageBytes
        if (wanted[page] !== 0) visit(window.subarray(at, at + pageBytes), page)
      }
      first = end - 1
    }
  }

  #bytes(at: number, count: number): Buffer {
    const bytes = Buffer.allocUnsafe(count)
    this.#read(bytes, at)
    return bytes
  }

  #read(target: Buffer, at: number): void {
    for (let read = 0; read < target.length; ) {
      const more = readSync(this.#file, target, read, target.length - read, at + read)
      if (more === 0) throw new LmdbFault(`it is cut off at byte ${at + read}`)
      read += more
    }
  }
}

interface PageRange {
  readonly first: number
  readonly count: number
}

/** Transaction n writes meta page n % 2, so the two numbers differ by one. In a new file, both are 0. */
function checkTurns(even: Meta, odd: Meta): void {
  const isNew = even.transaction === 0 && odd.transaction === 0
  const isOneApart = Math.abs(even.transaction - odd.transaction) === 1
  const areTurns = even.transaction % 2 === 0 && isOneApart
  if (even.pageBytes === odd.pageBytes && (isNew || areTurns)) return
  throw new LmdbFault('its two meta pages do not match')
}

/** Reads a list of free pages: its length, then pages. -n before a page makes it the first of n; 0 is no page. */
function* readFreePages(page: Buffer, at: number, bytes: number): Generator<PageRange> {
  const count = bytes < 8 ? 0 : readU64(page, at)
  if (bytes < (count + 1) * 8) throw new LmdbFault('a list of free pages is damaged')
  let run = 1
  for (let index = 1; index <= count; index += 1) {
    const entry = Number(page.readBigInt64LE(at + index * 8))
    if (entry < 0) run = -entry
    else {
      if (entry > 0) yield { first: entry, count: run }
      run = 1
    }
  }
}

function branchKey(page: Buffer, number: number, index: number, { keys }: TreeReader): Key {
  const at = placeOfNode(page, number, index)
  const isWhole = page.readUInt16LE(at + 6) === keyBytes && at + nodeBytes + keyBytes <= page.length
  if (!isWhole) throw new LmdbFault(`page ${number} has a damaged node`)
  return readKey(page, at + nodeBytes, keys)
}

/** Scoped keys are larger than the integers that a number can hold. */
type Key = number | bigint

/** Of both kinds. */
const keyBytes = 8

function readKey(page: Buffer, at: number, keys: KeyKind): Key {
  return keys === 'scoped' ? page.readBigUInt64BE(at) : readU64(page, at)
}

function visit(
  reader: TreeReader,
  keyPage: Buffer,
  keyAt: number,
  page: Buffer,
  valueAt: number,
  valueBytes: number,
): void {
  const isScoped = reader.keys === 'scoped'
  const key = isScoped ? keyPage.readUInt32BE(keyAt + 4) : Number(readKey(keyPage, keyAt, reader.keys))
  reader.visit(key, page, valueAt, valueBytes, isScoped ? keyPage.readUInt32BE(keyAt) : 0)
}

function strange(page: number): LmdbFault {
  return new LmdbFault(`page ${page} is not the expected page`)
}

function disordered(page: number): LmdbFault {
  return new LmdbFault(`the keys of page ${page} are out of order`)
}

/** The limit of LMDB. */
const depthMax = 32
/** The bytes of one read, and how many unneeded pages it may include: fewer, larger reads are faster. */
const windowBytes = 1024 * 1024
const gapPages = 8

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

interface Tree {
  readonly flags: number
  readonly depth: number
  readonly branchPages: number
  readonly leafPages: number
  readonly valuePages: number
  readonly entries: number
  /** `noPage` in an empty tree. */
  readonly root: number
}

interface Meta {
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

function readTree(page: Buffer, at: number): Tree {
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
function readU64(page: Buffer, at: number): number {
  return page.readUInt32LE(at) + page.readUInt32LE(at + 4) * 2 ** 32
}

/** @throws LmdbFault unless the offsets of nodes end before the nodes begin */
function countOfNodes(page: Buffer, number: number): number {
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
function placeOfNode(page: Buffer, number: number, index: number): number {
  const offset = page.readUInt16LE(headBytes + index * 2)
  const isWithin = offset >= page.readUInt16LE(upperAt) && headBytes + offset + nodeBytes <= page.length
  if (!isWithin || offset % 2 !== 0) throw new LmdbFault(`page ${number} has a damaged node`)
  return headBytes + offset
}

function nodeSize(keyBytes: number, valueBytes: number): number {
  const bytes = nodeBytes + keyBytes + valueBytes
  return bytes + (bytes % 2)
}

/** @throws LmdbFault unless nodes of this total size fill the page: LMDB leaves no gaps between them */
function checkPacked(page: Buffer, number: number, nodesBytes: number): void {
  if (headBytes + page.readUInt16LE(upperAt) + nodesBytes === page.length) return
  throw new LmdbFault(`page ${number} has damaged nodes`)
}

const metaBytes = 168
const headBytes = 24
const transactionAt = 8
const flagsAt = 18
const lowerAt = 20
const upperAt = 22
const valuePagesAt = 20
const nodeBytes = 8
const treeBytes = 48
/** Length of the reference to a value that has its own overflow pages. */
const overflowReferenceBytes = 24
const freeTreeAt = 48
const mainTreeAt = 96
const magic = 0xbeefc0de
const dataVersion = 2

const noPage: number = 2 ** 64
const pageFlags = { branch: 1, leaf: 2, value: 4, meta: 8 } as const
const nodeFlags = { apart: 1, tree: 2 } as const
/** The flag of a tree whose keys are integers. */
const integerKeys = 8
/** Integer keys, and the flag of the environment that its path is that of the file. */
const freeFlags = 0x4000 | integerKeys
