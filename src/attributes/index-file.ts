import { type FileHandle, open } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { encodeHead, type FileMoment, headBytes, headerOf, headOf, replaceFileAsync } from '../base/files.ts'
import { Turn } from '../base/turns.ts'
import type { AttributeIndex } from './attribute-index.ts'
import { type Block, blockKinds } from './index-blocks.ts'
import { MemoryCount } from './memory-count.ts'
import { NumberField } from './number-field.ts'
import { pieceForms } from './pieces.ts'

/**
 * An attribute index on disk: a cache that a start reads instead of all payloads. It can be rebuilt from the stored
 * points.
 *
 *   f64 offset of the head | blocks | head with the magic "VICATTR4"
 *   block: u8 kind | u8 form | u16 0 | u32 path | u32 bytes | u32 crc of the preceding fields and of the bytes | bytes
 *
 * Points may change while the file is written. The header lists the slots touched meanwhile, and reading leaves them
 * out. The new file is written next to the old one, synced and renamed over it. After a crash, either the old or the
 * new file exists, and it is complete.
 */
const magic = 'VICATTR4'

/** The content of a file in addition to the index. */
export interface LoadedFile extends FileMoment {
  /** The orders passed to `saveIndex`, without the slots that were touched during writing. */
  readonly orders: NumberField
}

interface Header extends FileMoment {
  readonly blocks: number
  readonly touched: readonly number[]
}

/**
 * Writes an index to a file, in turns.
 *
 * @param orders saved with the index. A slot whose order changes meanwhile must be touched in the index.
 * @returns false if too many slots changed during writing; the old file is then kept
 */
export async function saveIndex(
  index: AttributeIndex,
  path: string,
  moment: FileMoment,
  orders: NumberField = new NumberField(new MemoryCount()),
): Promise<boolean> {
  return await replaceFileAsync(path, (file) => writeIndex(index, file, moment, orders))
}

/**
 * Reads a file into an empty index, in turns.
 *
 * Each loaded point is as of its version in the index, and some points are missing. The caller sets the points whose
 * version is different now, and deletes the points that no longer exist.
 *
 * @param now the present state of the collection. A file that claims a later state is refused.
 * @returns undefined if there is no file
 * @throws Error that names the fault of the file, or the reason of `signal` if it aborts. The index is then empty.
 */
export async function loadIndex(
  index: AttributeIndex,
  path: string,
  now: FileMoment,
  signal?: AbortSignal,
): Promise<LoadedFile | undefined> {
  const file = await openIfThere(path)
  if (file === undefined) return undefined
  try {
    return await readIndex(index, file, now, signal)
  } catch (error) {
    // Each block is verified before it is loaded, but the blocks before a damaged one are already in the index.
    index.reset()
    throw error
  } finally {
    await file.close()
  }
}

async function writeIndex(
  index: AttributeIndex,
  file: FileHandle,
  { databaseId, sequence, points }: FileMoment,
  orders: NumberField,
): Promise<boolean> {
  const turn = new Turn()
  const touched = new Set<number>()
  let { position } = index.journal
  const writer = new Appender(file, offsetBytes)
  let blocks = 0
  const drain = (): boolean => {
    const slots = index.journal.since(position)
    position = index.journal.position
    for (const slot of slots ?? []) touched.add(slot)
    return slots !== undefined && touched.size <= touchedMax
  }
  for (const block of index.blocks(orders)) {
    await writer.add(encodeBlock(block))
    blocks += 1
    if (turn.isOver) await turn.next()
    if (!drain()) return false
  }
  const header: Header = { databaseId, sequence, points, blocks, touched: [...touched] }
  const offset = Buffer.alloc(offsetBytes)
  offset.writeDoubleLE(writer.end)
  await writer.add(encodeHead(magic, header))
  await writer.flush()
  await writeAt(file, offset, 0)
  return true
}

async function readIndex(
  index: AttributeIndex,
  file: FileHandle,
  now: FileMoment,
  signal: AbortSignal | undefined,
): Promise<LoadedFile> {
  const turn = new Turn()
  const { header, end } = await readHeader(file)
  const { databaseId, sequence, points } = header
  if (databaseId !== now.databaseId || sequence > now.sequence)
    throw new Error('it belongs to another database or to a later state')
  const loader = index.loader(header.touched)
  const bytes = new AheadReader(file, offsetBytes, end)
  let blocks = 0
  for (; bytes.left > 0; blocks += 1) {
    const head = await bytes.next(blockHeadBytes)
    const length = head.readUInt32LE(8)
    if (length > bytes.left) throw new Error(`its block ${blocks} is damaged`)
    loader.add(decodeBlock(head, await bytes.next(length), blocks))
    signal?.throwIfAborted()
    if (turn.isOver) await turn.next()
  }
  if (blocks !== header.blocks) throw new Error(`it has ${blocks} blocks, its header says ${header.blocks}`)
  for (const _ of loader.complete()) if (turn.isOver) await turn.next()
  return { databaseId, sequence, points, orders: loader.orders }
}

async function readHeader(file: FileHandle): Promise<{ readonly header: Header; readonly end: number }> {
  const { size } = await file.stat()
  const end = (await readAt(file, offsetBytes, 0, 'head')).readDoubleLE()
  if (!(Number.isInteger(end) && end >= offsetBytes && end + headBytes <= size))
    throw new Error('it is not an attribute index of this version')
  const head = headOf(await readAt(file, headBytes, end, 'head'), magic, 'an attribute index')
  if (end + headBytes + head.bytes !== size) throw new Error('its length does not match its head')
  const text = await readAt(file, head.bytes, end + headBytes, 'header')
  return { header: headerOf(head, text), end }
}

function encodeBlock({ kind, form, path, bytes }: Block): Buffer {
  const block = Buffer.alloc(blockHeadBytes + bytes.length)
  block.writeUInt8(blockKinds.indexOf(kind), 0)
  block.writeUInt8(pieceForms.indexOf(form), 1)
  block.writeUInt32LE(path, 4)
  block.writeUInt32LE(bytes.length, 8)
  block.set(bytes, blockHeadBytes)
  block.writeUInt32LE(crc32(bytes, crc32(block.subarray(0, 12))), 12)
  return block
}

function decodeBlock(head: Buffer, bytes: Buffer, number: number): Block {
  if (crc32(bytes, crc32(head.subarray(0, 12))) !== head.readUInt32LE(12)) {
    throw new Error(`its block ${number} does not match its checksum`)
  }
  const kind = blockKinds[head.readUInt8(0)]
  const form = pieceForms[head.readUInt8(1)]
  if (kind === undefined || form === undefined) throw new Error(`its block ${number} has an unknown kind`)
  return { kind, form, path: head.readUInt32LE(4), bytes }
}

/** Appends pieces to a file. Writes many of them at a time. */
class Appender {
  readonly #file: FileHandle
  #waiting: Buffer[] = []
  #waitingBytes = 0
  #end: number

  constructor(file: FileHandle, start: number) {
    this.#file = file
    this.#end = start
  }

  /** Offset of the next piece. */
  get end(): number {
    return this.#end
  }

  async add(bytes: Buffer): Promise<void> {
    this.#waiting.push(bytes)
    this.#waitingBytes += bytes.length
    this.#end += bytes.length
    if (this.#waitingBytes >= bytesAtOnce) await this.flush()
  }

  async flush(): Promise<void> {
    await writeAt(this.#file, Buffer.concat(this.#waiting), this.#end - this.#waitingBytes)
    this.#waiting = []
    this.#waitingBytes = 0
  }
}

/** Reads a range of a file sequentially. Reads many pieces at a time. */
class AheadReader {
  readonly #file: FileHandle
  /** Offset of the first byte that has not been read from the file yet. */
  #offset: number
  readonly #end: number
  #ahead: Buffer = Buffer.alloc(0)

  constructor(file: FileHandle, start: number, end: number) {
    this.#file = file
    this.#offset = start
    this.#end = end
  }

  /** Number of bytes that `next` has not returned yet. */
  get left(): number {
    return this.#ahead.length + this.#end - this.#offset
  }

  /** @throws Error if fewer bytes are left */
  async next(length: number): Promise<Buffer> {
    if (length > this.left) throw new Error('it ends within its blocks')
    if (length > this.#ahead.length) {
      const missing = length - this.#ahead.length
      const count = Math.min(this.#end - this.#offset, Math.max(missing, bytesAtOnce))
      const more = await readAt(this.#file, count, this.#offset, 'blocks')
      this.#offset += count
      this.#ahead = this.#ahead.length === 0 ? more : Buffer.concat([this.#ahead, more])
    }
    const bytes = this.#ahead.subarray(0, length)
    this.#ahead = this.#ahead.subarray(length)
    return bytes
  }
}

async function writeAt(file: FileHandle, bytes: Buffer, offset: number): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    at += (await file.write(bytes, at, bytes.length - at, offset + at)).bytesWritten
  }
}

async function readAt(file: FileHandle, length: number, offset: number, what: string): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(length)
  for (let at = 0; at < length; ) {
    const { bytesRead } = await file.read(bytes, at, length - at, offset + at)
    if (bytesRead === 0) throw new Error(`it ends within its ${what}`)
    at += bytesRead
  }
  return bytes
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

const offsetBytes = 8
const blockHeadBytes = 16
/** Reading or writing this many bytes takes well under a millisecond, hardly more than a small request. */
const bytesAtOnce = 1024 * 1024
/** Rebuilding this many slots at a start takes a few seconds. */
const touchedMax = 1_000_000
