import { createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { defaultCollection, type HnswSettings, type WordSettings } from '../../base/collection.ts'
import { DatabaseError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { mainNumber } from '../catalog.ts'
import { openDataStore } from '../data-store.ts'
import { SnapshotReader } from './snapshot-reader.ts'
import { fillStore, restoreInto } from './snapshot-restore.ts'
import { isTar, type TarEntry, TarWriter, tarContent, tarEntries } from './tar.ts'

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
