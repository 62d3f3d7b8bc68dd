import { chmodSync, closeSync, existsSync, openSync, readSync } from 'node:fs'
import { type Database, open as openLmdb, type RootDatabase } from 'lmdb'
import { damaged, databasePath, rowFilePath } from './data-directory.ts'
import { decodeBlock, decodeMeta, type Meta } from './key-layout.ts'

/** The tables in LMDB: see key-layout.ts for their keys and values. */
export interface Tables {
  readonly root: RootDatabase
  readonly payloads: Database<Buffer, number>
  readonly live: Database<Buffer, number>
  readonly meta: Database<Buffer, number>
}

/**
 * Opens or makes the tables. Each thread that uses them opens them for itself; inside the process lmdb gives
 * them all the one environment.
 */
export function openTables(dataDir: string): Tables {
  const path = databasePath(dataDir)
  const format = { keyEncoding: 'uint32', encoding: 'binary' } as const
  if (hasForeignHead(path)) throw damaged(path, 'it is not an LMDB file')
  try {
    // `overlappingSync` off: a transaction then ends after its fsync, not when it is visible.
    const root = openLmdb({ path, noSubdir: true, maxDbs: 4, overlappingSync: false, mapSize })
    for (const file of [path, `${path}-lock`]) chmodSync(file, 0o600)
    const table = (name: string): Database<Buffer, number> => root.openDB<Buffer, number>({ name, ...format })
    return { root, payloads: table('payloads'), live: table('live'), meta: table('meta') }
  } catch (error) {
    throw damaged(path, error instanceof Error ? error.message : String(error))
  }
}

/**
 * Undefined when there is none: nothing has been stored yet.
 *
 * @throws DatabaseError when the record is damaged or of another format version, or missing where there are rows
 */
export function readMeta(dataDir: string, tables: Tables): Meta | undefined {
  const value = tables.meta.getBinary(0)
  if (value === undefined) {
    // A store writes the record before anything else, so what it described is lost with it.
    if (existsSync(rowFilePath(dataDir))) throw damaged(databasePath(dataDir), 'its meta record is missing')
    return undefined
  }
  const meta = decodeMeta(value)
  if ('fault' in meta) throw damaged(databasePath(dataDir), meta.fault)
  return meta
}

/**
 * The bits of live slots, by block.
 *
 * @throws DatabaseError when a block is damaged
 */
export function readLive(dataDir: string, tables: Tables): Map<number, Buffer> {
  const blocks = new Map<number, Buffer>()
  for (const { key, value } of tables.live.getRange()) {
    const bits = decodeBlock(key, value)
    if (bits === undefined) {
      throw damaged(databasePath(dataDir), `block ${key} of live slots does not match its checksum`)
    }
    blocks.set(key, bits)
  }
  return blocks
}

/** @throws DatabaseError when not as many payloads and live bits are there as points were stored */
export function checkCounts(
  dataDir: string,
  tables: Tables,
  meta: Meta,
  live: ReadonlyMap<number, Buffer>,
): void {
  const { entryCount } = tables.payloads.getStats() as { entryCount: number }
  let bits = 0
  for (const block of live.values()) for (const byte of block) bits += bitsOfByte[byte]!
  if (entryCount === meta.pointCount && bits === meta.pointCount) return
  throw damaged(
    databasePath(dataDir),
    `it should hold ${meta.pointCount} points, but has ${entryCount} payloads and ${bits} live slots`,
  )
}

const bitsOfByte = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll('0', '').length)

/** lmdb ends the process when it opens a file that is not its own: the magic number of the first page is looked at before. */
function hasForeignHead(path: string): boolean {
  if (!existsSync(path)) return false
  const head = Buffer.alloc(28)
  const file = openSync(path, 'r')
  try {
    const read = readSync(file, head, 0, head.length, 0)
    return read > 0 && (read < head.length || head.readUInt32LE(24) !== lmdbMagic)
  } finally {
    closeSync(file)
  }
}

const lmdbMagic = 0xbeefc0de

/**
 * Address space, not memory or disk. A smaller map is doubled as the file grows, under the feet of readers in
 * other threads; lmdb keeps the old maps for them, but not having to is better.
 */
const mapSize = 64 * 1024 ** 3
