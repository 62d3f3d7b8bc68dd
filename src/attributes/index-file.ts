import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { crc32 } from 'node:zlib'
import { syncDirectoryAsync } from '../base/sync-directory.ts'
import { Turn } from '../base/turns.ts'
import type { AttributeIndex } from './attribute-index.ts'
import { type Block, blockKinds } from './index-blocks.ts'

/**
 * An attribute index on disk: a cache that can be rebuilt from the stored points, so that a start reads it instead of all
 * payloads.
 *
 *   "VICATTRS" | f64 offset of the header | u32 bytes of header | u32 crc of header | blocks | header (JSON)
 *   block: u32 kind | u32 path | u32 bytes | u32 crc of these three and of the bytes | bytes
 *
 * Points may change while it is written: the header names the slots that were touched meanwhile, and reading leaves them out.
 * The file is written beside the old one, synced and renamed over it: after a crash, either the old or the new file is there,
 * complete.
 */
const magic = 'VICATTRS'
const formatVersion = 1

interface Header {
  readonly version: number
  /** Sequence number of the last change when writing began. */
  readonly sequence: number
  readonly blocks: number
  readonly touched: readonly number[]
}

/**
 * Writes an index to a file, in turns.
 *
 * @param sequence of the last change
 * @returns false if too much changed meanwhile: then the old file is left
 */
export async function saveIndex(index: AttributeIndex, path: string, sequence: number): Promise<boolean> {
  const temporary = `${path}.new`
  await using file = await open(temporary, 'w', 0o600)
  const isWritten = await writeIndex(index, file, sequence)
  if (!isWritten) {
    await rm(temporary)
    return false
  }
  await file.sync()
  await rename(temporary, path)
  await syncDirectoryAsync(dirname(path))
  return true
}

/**
 * Reads a file into an empty index, in turns.
 *
 * A point in the index is as it was at its version, and some that were there are missing: the caller sets those whose
 * version is another one now, and deletes those that are gone.
 *
 * @returns the sequence number with which it was written; undefined if there is no file
 * @throws Error that says what is wrong with the file; then the index is empty
 */
export async function loadIndex(index: AttributeIndex, path: string): Promise<number | undefined> {
  const file = await openIfThere(path)
  if (file === undefined) return undefined
  try {
    return await readIndex(index, file)
  } catch (error) {
    // Each block was verified before it was entered, but the ones before a damaged block are in the index.
    index.reset()
    throw error
  } finally {
    await file.close()
  }
}

async function writeIndex(index: AttributeIndex, file: FileHandle, sequence: number): Promise<boolean> {
  const turn = new Turn()
  const touched = new Set<number>()
  let { position } = index.journal
  let offset = headBytes
  let blocks = 0
  const drain = (): boolean => {
    const slots = index.journal.since(position)
    position = index.journal.position
    for (const slot of slots ?? []) touched.add(slot)
    return slots !== undefined && touched.size <= touchedMax
  }
  for (const block of index.blocks()) {
    offset += await writeAt(file, encodeBlock(block), offset)
    blocks += 1
    if (turn.isOver) await turn.next()
    if (!drain()) return false
  }
  const text = Buffer.from(
    JSON.stringify({ version: formatVersion, sequence, blocks, touched: [...touched] } satisfies Header),
  )
  await writeAt(file, text, offset)
  await writeAt(file, encodeHead(offset, text), 0)
  return true
}

async function readIndex(index: AttributeIndex, file: FileHandle): Promise<number> {
  const turn = new Turn()
  const { header, end } = await readHeader(file)
  const loader = index.loader(new Set(header.touched))
  let offset = headBytes
  let blocks = 0
  for (; offset < end; blocks += 1) {
    const head = await readAt(file, blockHeadBytes, offset, 'blocks')
    const length = head.readUInt32LE(8)
    if (offset + blockHeadBytes + length > end) throw new Error(`its block ${blocks} is damaged`)
    const bytes = await readAt(file, length, offset + blockHeadBytes, 'blocks')
    loader.add(decodeBlock(head, bytes, blocks))
    offset += blockHeadBytes + length
    if (turn.isOver) await turn.next()
  }
  if (blocks !== header.blocks) throw new Error(`it has ${blocks} blocks of ${header.blocks}`)
  loader.finish()
  return header.sequence
}

async function readHeader(file: FileHandle): Promise<{ readonly header: Header; readonly end: number }> {
  const head = await readAt(file, headBytes, 0, 'head')
  if (head.toString('latin1', 0, 8) !== magic) throw new Error('it is not an attribute index')
  const offset = head.readDoubleLE(8)
  const bytes = head.readUInt32LE(16)
  const { size } = await file.stat()
  if (!(offset >= headBytes) || offset + bytes !== size)
    throw new Error('its length is another than its head says')
  const text = await readAt(file, bytes, offset, 'header')
  if (crc32(text) !== head.readUInt32LE(20)) throw new Error('its header does not match its checksum')
  const header = JSON.parse(text.toString()) as Header
  if (header.version !== formatVersion) {
    throw new Error(`it has format ${header.version}, this version reads ${formatVersion}`)
  }
  return { header, end: offset }
}

function encodeHead(offset: number, header: Buffer): Buffer {
  const head = Buffer.alloc(headBytes)
  head.write(magic, 'latin1')
  head.writeDoubleLE(offset, 8)
  head.writeUInt32LE(header.length, 16)
  head.writeUInt32LE(crc32(header), 20)
  return head
}

function encodeBlock({ kind, path, bytes }: Block): Buffer {
  const block = Buffer.alloc(blockHeadBytes + bytes.length)
  block.writeUInt32LE(blockKinds.indexOf(kind), 0)
  block.writeUInt32LE(path, 4)
  block.writeUInt32LE(bytes.length, 8)
  block.set(bytes, blockHeadBytes)
  block.writeUInt32LE(crc32(bytes, crc32(block.subarray(0, 12))), 12)
  return block
}

function decodeBlock(head: Buffer, bytes: Buffer, number: number): Block {
  const kind = blockKinds[head.readUInt32LE(0)]
  if (crc32(bytes, crc32(head.subarray(0, 12))) !== head.readUInt32LE(12) || kind === undefined) {
    throw new Error(`its block ${number} does not match its checksum`)
  }
  return { kind, path: head.readUInt32LE(4), bytes }
}

/** Returns how many bytes it wrote. */
async function writeAt(file: FileHandle, bytes: Buffer, offset: number): Promise<number> {
  for (let at = 0; at < bytes.length; ) {
    at += (await file.write(bytes, at, bytes.length - at, offset + at)).bytesWritten
  }
  return bytes.length
}

async function readAt(file: FileHandle, length: number, offset: number, what: string): Promise<Buffer> {
  const bytes = Buffer.alloc(length)
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

const headBytes = 24
const blockHeadBytes = 16
/** Rebuilding so many at a start takes a few seconds. */
const touchedMax = 1_000_000
