import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { defaultCollection, type HnswSettings, type WordSettings } from '../../base/collection.ts'
import { DatabaseError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { mainNumber } from '../catalog.ts'
import { openDataStore } from '../data-store.ts'
import { SnapshotReader } from './snapshot-reader.ts'
import { fillStore, restoreInto } from './snapshot-restore.ts'

/**
 * Backups: all collections and aliases in one file. The file is a tar with an ordinary snapshot of each collection. At
 * the end are `manifest.json`, which describes them, and its checksum. Each snapshot can also be unpacked and used
 * alone.
 */

interface BackedUpCollection {
  readonly name: string
  /** Name in the tar. */
  readonly file: string
  readonly bytes: number
  /** Checksum of the file, in hex. */
  readonly sha256: string
  readonly points: number
  readonly dimension?: number | undefined
  readonly hnsw: HnswSettings
  readonly words?: WordSettings | undefined
}

interface BackupManifest {
  readonly version: number
  /** RFC 3339. */
  readonly createdAt: string
  /** The default collection comes first. */
  readonly collections: readonly BackedUpCollection[]
  /** The name of the collection, by alias. */
  readonly aliases: Readonly<Record<string, string>>
}

const backupVersion = 1
const manifestName = 'manifest.json'
const sumName = 'manifest.sha256'

/** Writes a backup to an empty file. */
export class BackupWriter {
  readonly #tar: TarWriter
  readonly #collections: BackedUpCollection[] = []

  constructor(file: FileHandle) {
    this.#tar = new TarWriter(file)
  }

  /** Adds a collection from the bytes of its snapshot. Verifies them as they arrive. */
  async add(
    settings: Pick<BackedUpCollection, 'name' | 'dimension' | 'hnsw' | 'words'>,
    snapshot: AsyncIterable<Uint8Array>,
  ): Promise<BackedUpCollection> {
    const { name, dimension, hnsw, words } = settings
    const file = `${name}.snapshot`
    const hash = createHash('sha256')
    let bytes = 0
    const noted = async function* (chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      for await (const chunk of chunks) {
        hash.update(chunk)
        bytes += chunk.length
        yield chunk
      }
    }
    const reader = await SnapshotReader.open(this.#tar.add(file, noted(snapshot)))
    for await (const _ of reader.points());
    const { points } = reader.header
    const fixed = dimension === undefined ? {} : { dimension }
    const added = {
      name,
      file,
      bytes,
      sha256: hash.digest('hex'),
      points,
      ...fixed,
      hnsw,
      ...(words && { words }),
    }
    this.#collections.push(added)
    return added
  }

  /** Ends the backup. Leaves out aliases of collections that are not in the backup. */
  async end(aliases: ReadonlyMap<string, string>): Promise<BackupManifest> {
    const names = new Set(this.#collections.map(({ name }) => name))
    const manifest: BackupManifest = {
      version: backupVersion,
      createdAt: new Date().toISOString(),
      collections: this.#collections,
      aliases: Object.fromEntries([...aliases].filter(([, name]) => names.has(name))),
    }
    const text = Buffer.from(`${JSON.stringify(manifest, undefined, 2)}\n`)
    for await (const _ of this.#tar.add(manifestName, Readable.from([text])));
    const sum = Buffer.from(sumOf(text))
    for await (const _ of this.#tar.add(sumName, Readable.from([sum])));
    await this.#tar.end()
    return manifest
  }
}

/** A backup in a file. */
export interface Backup {
  readonly path: string
  readonly manifest: BackupManifest
  readonly entries: readonly TarEntry[]
}

/**
 * Reads the manifest of a backup; returns undefined if the file is not a backup, but for example a snapshot.
 *
 * @throws DatabaseError `invalid_argument` if the backup is damaged, or a later program wrote it
 */
export async function readBackup(path: string): Promise<Backup | undefined> {
  const file = await open(path)
  try {
    if (!(await isTar(file))) return undefined
    const entries = await tarEntries(file)
    const contentOf = async (wanted: string): Promise<Buffer> => {
      const entry = entries.find(({ name }) => name === wanted)
      if (entry === undefined) throw refused(`it has no ${wanted}`)
      const chunks: Buffer[] = []
      for await (const chunk of tarContent(path, entry)) chunks.push(chunk)
      return Buffer.concat(chunks)
    }
    const text = await contentOf(manifestName)
    if ((await contentOf(sumName)).toString() !== sumOf(text)) {
      throw refused(`${manifestName} does not match its checksum`)
    }
    return { path, entries, manifest: manifestIn(text.toString()) }
  } finally {
    await file.close()
  }
}

/** The checksum in the format of `sha256sum`. */
function sumOf(manifest: Buffer): string {
  return `${createHash('sha256').update(manifest).digest('hex')}  ${manifestName}\n`
}

function manifestIn(text: string): BackupManifest {
  let manifest: BackupManifest
  try {
    manifest = JSON.parse(text) as BackupManifest
  } catch (cause) {
    throw refused(`${manifestName} is not JSON`, cause)
  }
  if (manifest.version !== backupVersion) {
    throw refused(`it has version ${manifest.version}, this program reads version ${backupVersion}`)
  }
  if (manifest.collections[0]?.name !== defaultCollection) throw refused('it has no default collection')
  return manifest
}

/**
 * Opens the snapshot of a collection.
 *
 * @throws DatabaseError `invalid_argument` if the snapshot does not match the manifest; at the latest, reading its last
 *   byte throws it
 */
export async function snapshotIn(
  { path, entries }: Backup,
  { file, bytes, sha256 }: BackedUpCollection,
): Promise<SnapshotReader> {
  const entry = entries.find(({ name }) => name === file)
  if (entry?.bytes !== bytes) throw refused(`${file} is missing or has the wrong length`)
  const hash = createHash('sha256')
  const chunks = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of tarContent(path, entry)) {
      hash.update(chunk)
      yield chunk
    }
    if (hash.digest('hex') !== sha256) throw refused(`${file} does not match its checksum`)
  }
  return await SnapshotReader.open(chunks())
}

/**
 * Creates a data directory from a backup, completely or not at all, like `restoreSnapshot` from a snapshot.
 *
 * @throws DatabaseError `invalid_argument` if `dataDir` is not empty or the backup is damaged
 */
export async function restoreBackup(backup: Backup, dataDir: string, logger: Logger): Promise<void> {
  const { collections, aliases } = backup.manifest
  await restoreInto(dataDir, async (building) => {
    const [main, ...others] = collections
    const reader = await snapshotIn(backup, main!)
    const { dimension } = reader.header
    const data = await openDataStore({
      dataDir: building,
      logger,
      ...(dimension === undefined ? {} : { dimension }),
    })
    try {
      await fillStore(data.main, reader)
      if (main!.words !== undefined) await data.setWords(mainNumber, main!.words)
      for (const collection of others) {
        const { name, dimension: fixed, hnsw, words } = collection
        const { number } = await data.create({ name, dimension: fixed, hnsw, words })
        const store = await data.open(number)
        try {
          await fillStore(store, await snapshotIn(backup, collection))
        } finally {
          await store.close()
        }
      }
      if (Object.keys(aliases).length > 0) await data.setAliases(new Map(Object.entries(aliases)), [])
    } finally {
      await data.close()
    }
  })
}

function refused(fault: string, cause?: unknown): DatabaseError {
  return new DatabaseError('invalid_argument', `the backup cannot be used: ${fault}`, { cause })
}

/**
 * Reads and writes the tar format, as far as backups need it: plain files in the root. The format is POSIX ustar, with
 * GNU tar's form for sizes of 8 GiB and more. Any tar program can list and unpack these files.
 *
 *   ├ header 512 ┤├ content, up to a multiple of 512 ┤ ... ├ two blocks of zeros ┤
 */

const blockBytes = 512
const nameBytes = 100
const magicAt = 257
const checksumAt = 148
const octalSizeMax = 8 ** 11
/** Length of the size field. If its highest bit is set, the size is binary. */
const sizeBytes = 12
const sizeAt = 124

interface TarEntry {
  readonly name: string
  /** Offset of its content in the file. */
  readonly from: number
  readonly bytes: number
}

/** Writes one file after the other. Their sizes need not be known in advance. */
class TarWriter {
  readonly #file: FileHandle
  #end = 0

  constructor(file: FileHandle) {
    this.#file = file
  }

  /**
   * Writes a file, and yields its content so that the caller can check it. The file is complete when the iteration
   * ends.
   *
   * @param name at most 100 ASCII characters
   */
  async *add(name: string, content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
    let end = this.#end + blockBytes
    for await (const bytes of content) {
      await this.#write(bytes, end)
      end += bytes.length
      yield bytes
    }
    const bytes = end - this.#end - blockBytes
    await this.#write(Buffer.alloc(padding(bytes)), end)
    await this.#write(headerOf(name, bytes), this.#end)
    this.#end = end + padding(bytes)
  }

  async end(): Promise<void> {
    await this.#write(Buffer.alloc(2 * blockBytes), this.#end)
  }

  async #write(bytes: Uint8Array, at: number): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await this.#file.write(bytes, done, bytes.length - done, at + done)
      done += bytesWritten
    }
  }
}

/** Whether a file is a tar file. */
async function isTar(file: FileHandle): Promise<boolean> {
  const header = await readBlock(file, 0)
  return header !== undefined && header.toString('latin1', magicAt, magicAt + 5) === 'ustar'
}

/** Lists the files in a tar file. @throws DatabaseError `invalid_argument` if it is damaged or ends too early */
async function tarEntries(file: FileHandle): Promise<TarEntry[]> {
  const entries: TarEntry[] = []
  for (let at = 0; ; ) {
    const header = await readBlock(file, at)
    if (header === undefined) throw damaged('it ends too early')
    if (header.every((byte) => byte === 0)) return entries
    if (checksumOf(header) !== octal(header, checksumAt, 8))
      throw damaged(`its header at byte ${at} is damaged`)
    const bytes = sizeIn(header)
    const name = header.toString('latin1', 0, nameBytes).replace(/\0.*$/, '')
    entries.push({ name, from: at + blockBytes, bytes })
    at += blockBytes + bytes + padding(bytes)
  }
}

/** Reads the content of a file in a tar file. */
function tarContent(path: string, { from, bytes }: TarEntry): AsyncIterable<Buffer> {
  return bytes === 0
    ? (async function* () {})()
    : (createReadStream(path, { start: from, end: from + bytes - 1 }) as AsyncIterable<Buffer>)
}

function headerOf(name: string, bytes: number): Buffer {
  const header = Buffer.alloc(blockBytes)
  header.write(name, 0, nameBytes, 'latin1')
  header.write('0000600\0', 100, 'latin1')
  header.write('0000000\0', 108, 'latin1')
  header.write('0000000\0', 116, 'latin1')
  if (bytes < octalSizeMax) header.write(`${bytes.toString(8).padStart(11, '0')}\0`, sizeAt, 'latin1')
  else {
    header[sizeAt] = 0x80
    header.writeBigUInt64BE(BigInt(bytes), sizeAt + sizeBytes - 8)
  }
  header.write('00000000000\0', 136, 'latin1')
  header.write('0', 156, 'latin1')
  header.write('ustar\x0000', magicAt, 'latin1')
  header.write(`${checksumOf(header).toString(8).padStart(6, '0')}\0 `, checksumAt, 'latin1')
  return header
}

/** The sum of all bytes, with spaces in the field of the sum. */
function checksumOf(header: Buffer): number {
  return header.reduce((sum, byte, at) => sum + (at >= checksumAt && at < checksumAt + 8 ? 0x20 : byte), 0)
}

function sizeIn(header: Buffer): number {
  if ((header[sizeAt]! & 0x80) === 0) return octal(header, sizeAt, sizeBytes)
  return Number(header.readBigUInt64BE(sizeAt + sizeBytes - 8))
}

function octal(header: Buffer, at: number, length: number): number {
  const digits = header.toString('latin1', at, at + length).replace(/[\0 ].*$/s, '')
  if (!/^[0-7]+$/.test(digits)) throw damaged('a number in a header is damaged')
  return Number.parseInt(digits, 8)
}

function padding(bytes: number): number {
  return (blockBytes - (bytes % blockBytes)) % blockBytes
}

async function readBlock(file: FileHandle, at: number): Promise<Buffer | undefined> {
  const block = Buffer.alloc(blockBytes)
  let filled = 0
  while (filled < blockBytes) {
    const { bytesRead } = await file.read(block, filled, blockBytes - filled, at + filled)
    if (bytesRead === 0) return undefined
    filled += bytesRead
  }
  return block
}

function damaged(fault: string): DatabaseError {
  return new DatabaseError('invalid_argument', `the backup cannot be used: ${fault}`)
}
