import { chmodSync } from 'node:fs'
import { type Database, open as openLmdb, type RootDatabase } from 'lmdb'
import { damaged, databasePath } from './data-directory.ts'
import { decodeMeta, type Meta, slotsPerBlock } from './key-layout.ts'

/** The tables in LMDB: see key-layout.ts for their keys and values. */
export interface Tables {
  readonly root: RootDatabase
  readonly payloads: Database<Buffer, number>
  readonly live: Database<Buffer, number>
  readonly meta: Database<Buffer, number>
}

/** Bits of one block of slots, none set. */
export const emptyBlock: Buffer = Buffer.alloc(slotsPerBlock / 8)

/**
 * Opens or makes the tables. Each thread that uses them opens them for itself; inside the process lmdb gives
 * them all the one environment.
 */
export function openTables(dataDir: string): Tables {
  const path = databasePath(dataDir)
  const format = { keyEncoding: 'uint32', encoding: 'binary' } as const
  try {
    // `overlappingSync` off: a transaction then ends after its fsync, not when it is visible.
    const root = openLmdb({ path, noSubdir: true, maxDbs: 4, overlappingSync: false, mapSize })
    chmodSync(path, 0o600)
    const table = (name: string): Database<Buffer, number> => root.openDB<Buffer, number>({ name, ...format })
    return { root, payloads: table('payloads'), live: table('live'), meta: table('meta') }
  } catch (error) {
    throw damaged(path, error instanceof Error ? error.message : String(error))
  }
}

/** @throws DatabaseError when the record is damaged or of another format version */
export function readMeta(dataDir: string, tables: Tables): Meta {
  const value = tables.meta.getBinary(0)
  if (value === undefined) return { dimension: undefined, sequence: 0, slotCount: 0 }
  const meta = decodeMeta(value)
  if ('fault' in meta) throw damaged(databasePath(dataDir), meta.fault)
  return meta
}

/** The bits of live slots, by block. */
export function readLive(dataDir: string, tables: Tables): Map<number, Buffer> {
  const blocks = new Map<number, Buffer>()
  for (const { key, value } of tables.live.getRange()) {
    if (value.length !== emptyBlock.length)
      throw damaged(databasePath(dataDir), `block ${key} of live slots is cut off`)
    blocks.set(key, Buffer.from(value))
  }
  return blocks
}

/**
 * Address space, not memory or disk. A smaller map is doubled as the file grows, under the feet of readers in
 * other threads; lmdb keeps the old maps for them, but not having to is better.
 */
const mapSize = 64 * 1024 ** 3
