import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { defaultCollection, type HnswSettings, type WordSettings } from '../../base/collection.ts'
import { DatabaseError } from '../../base/errors.ts'
import type { Quotas } from '../../base/quotas.ts'
import { PartitionDigest } from '../applied.ts'
import { rangeBytes, recordsIn } from '../changes/change-format.ts'
import type { JournalPlace, JournalRange, Moment } from '../store.ts'
import { SnapshotReader } from './snapshot-reader.ts'

/**
 * Backups of all collections and aliases, in a store of objects: a directory or a bucket. The first one has all points,
 * each later one what has changed since an earlier one, its parent.
 *
 *   backups/<time>-<full or more>-<sha256>.json   a manifest: says what the backup has; stored last
 *   objects/<sha256>                              a piece of a snapshot (snapshot-format.ts), or of the changes since
 *                                                 the backup before (change-format.ts)
 *
 * A name has the SHA-256 of the object's bytes, so an object is never replaced by another, and damage is detected. A
 * killed backup leaves only objects that no manifest names. Two backups at the same time are two children of one
 * parent, and both can be restored.
 */

/** A place for objects, which only backups change. Names consist of letters, digits, `-`, `.` and one `/`. */
export interface ObjectStore {
  /** For messages. */
  readonly place: string
  /** Stores an object completely or not at all; it is durable when this resolves. Replaces an object of this name. */
  put(name: string, bytes: Uint8Array): Promise<void>
  /** @throws DatabaseError `not_found` if there is no such object */
  get(name: string): Promise<Buffer>
  /** Lists the objects in a folder, in any order. */
  list(folder: string): AsyncIterable<ObjectInfo>
  /** Removes an object, if it exists. */
  remove(name: string): Promise<void>
}

interface ObjectInfo {
  readonly name: string
  readonly modifiedMs: number
}

export interface BackedUpCollection extends Moment {
  readonly name: string
  readonly dimension?: number | undefined
  readonly hnsw: HnswSettings
  readonly words?: WordSettings | undefined
  readonly quotas?: Quotas | undefined
  /** Number of all points, and the `PartitionDigest.sum` of them. */
  readonly points: number
  readonly digest: string
  /** The sequence number in the parent, if only changes are here; the same as this one if there are none. */
  readonly since?: number | undefined
  /** Names of the pieces of the snapshot, in order: of all points, or of the changes. */
  readonly pieces: readonly string[]
}

/** A part of the journal of changes of a service. */
export interface BackedUpChanges {
  /** Of the journal. */
  readonly id: string
  /** The places at which it begins and ends. */
  readonly from: number
  readonly to: number
  /** The CRC of all bytes of the journal up to these places. */
  readonly sumBefore: number
  readonly sum: number
  /** The place before the snapshots of the backup: they have all changes up to there. */
  readonly begin: number
  /** Names of the pieces, in order. */
  readonly pieces: readonly string[]
}

export interface BackupManifest {
  readonly version: number
  /**
   * RFC 3339: contains nothing that was stored after this time. With changes: these have everything up to then, by the
   * clock of the service.
   */
  readonly time: string
  /** The name of the backup on which this one builds; absent if it has all points. */
  readonly parent?: string | undefined
  /**
   * Bytes of the pieces here; and of those with points, of the backups below that have only changes, and of the one with
   * all points.
   */
  readonly bytes: number
  readonly changeBytes: number
  readonly fullBytes: number
  /** The default collection comes first. */
  readonly collections: readonly BackedUpCollection[]
  /** The name of the collection, by alias. */
  readonly aliases: Readonly<Record<string, string>>
  /** Absent if changes are not kept, as in a cluster. */
  readonly changes?: BackedUpChanges | undefined
}

/** A backup that can be restored. */
export interface Backup {
  readonly name: string
  readonly timeMs: number
  readonly isFull: boolean
}

/** The backups in a store, as they were when it was opened. */
export class Backups {
  readonly store: ObjectStore
  /** The oldest first. */
  readonly all: readonly Backup[]
  readonly #manifests = new Map<string, BackupManifest>()

  private constructor(store: ObjectStore, all: readonly Backup[]) {
    this.store = store
    this.all = all
  }

  static async open(store: ObjectStore): Promise<Backups> {
    const all: Backup[] = []
    for await (const { name } of store.list(manifestFolder)) {
      const [, time, kind] = manifestName.exec(name) ?? []
      if (time !== undefined) all.push({ name, timeMs: timeIn(time), isFull: kind === 'full' })
    }
    return new Backups(
      store,
      all.sort((a, b) => a.timeMs - b.timeMs || (a.name < b.name ? -1 : 1)),
    )
  }

  /**
   * Returns the newest backup that has nothing of a later time.
   *
   * @throws DatabaseError `not_found` if there is none
   */
  at(timeMs: number = Number.POSITIVE_INFINITY): Backup {
    const found = this.all.findLast((each) => each.timeMs <= timeMs)
    if (found !== undefined) return found
    const [oldest] = this.all
    const what =
      oldest === undefined
        ? `${this.store.place} has no backup`
        : `the oldest backup in ${this.store.place} is of ${new Date(oldest.timeMs).toISOString()}`
    throw new DatabaseError('not_found', what)
  }

  /** Reads a manifest. @throws DatabaseError if it is missing or damaged */
  async manifest(name: string): Promise<BackupManifest> {
    const known = this.#manifests.get(name)
    if (known !== undefined) return known
    const manifest = manifestIn(name, await checkedObject(this.store, name))
    this.#manifests.set(name, manifest)
    return manifest
  }

  /** Reads the manifests of a backup and of all on which it builds, the newest first. */
  async chain({ name, timeMs }: Pick<Backup, 'name' | 'timeMs'>): Promise<readonly BackupManifest[]> {
    const before = this.all.filter((each) => each.timeMs <= timeMs)
    const likely = before.slice(
      Math.max(
        0,
        before.findLastIndex((each) => each.isFull),
      ),
    )
    await eachOf(likely, async (each) => {
      // A damaged manifest matters only if it belongs to the chain.
      await this.manifest(each.name).catch(() => {})
    })
    const chain: BackupManifest[] = []
    for (let next: string | undefined = name; next !== undefined; ) {
      const manifest: BackupManifest = await this.manifest(next)
      chain.push(manifest)
      next = manifest.parent
    }
    return chain
  }

  /**
   * Removes backups on which none of the kept ones builds, and objects that no backup has. Whatever a backup in progress
   * could build on or has stored remains: only what has been superseded for a day is removed.
   *
   * @param isKept called with the age of each backup and its place from the newest on, which is 0
   * @returns the number of removed backups
   */
  async prune(isKept: (ageMs: number, place: number) => boolean, nowMs: number): Promise<number> {
    const { all } = this
    const isOut = ({ timeMs }: Backup, index: number): boolean =>
      !isKept(nowMs - timeMs, all.length - 1 - index) && index < all.length - 1
    // The first one that is kept builds on the last full one before it.
    const firstKept = all.findIndex((each, index) => !isOut(each, index))
    if (all.slice(1, firstKept + 1).every(({ isFull }) => !isFull)) return 0
    await eachOf(all, ({ name }) => this.manifest(name))
    const needed = new Set<string>()
    for (const [index, each] of all.entries()) {
      const next = all[index + 1]
      const isRecent = next === undefined || nowMs - next.timeMs < safetyMs
      if (isOut(each, index) && !isRecent) continue
      for (let name: string | undefined = each.name; name !== undefined && !needed.has(name); ) {
        needed.add(name)
        name = this.#manifests.get(name)?.parent
      }
    }
    const removed = all.filter(({ name }) => !needed.has(name))
    // Children first, so that no backup is ever without its parent.
    for (const { name } of removed.reverse()) await this.store.remove(name)
    const pieces = new Set<string>()
    for (const name of needed) {
      const { collections, changes } = this.#manifests.get(name)!
      for (const { pieces: some } of [...collections, changes ?? { pieces: [] }])
        for (const each of some) pieces.add(each)
    }
    for await (const { name, modifiedMs } of this.store.list(pieceFolder)) {
      if (!pieces.has(name) && nowMs - modifiedMs >= safetyMs) await this.store.remove(name)
    }
    return removed.length
  }
}

interface Parent {
  readonly name: string
  readonly manifest: BackupManifest
}

/** Adds a backup to a store. */
export class BackupWriter {
  readonly #store: ObjectStore
  /** The newest backup. */
  readonly #last: Parent | undefined
  /** The same, if this one is built on it. */
  readonly #parent: Parent | undefined
  /** Those of the newest backup that has changes. */
  readonly #lastChanges: BackedUpChanges | undefined
  readonly #collections: BackedUpCollection[] = []
  #changes: BackedUpChanges | undefined
  readonly #uploads = new Parallel()
  #timeMs = 0
  /** Of the points, and of the changes since the newest backup. */
  #bytes = 0
  #journalBytes = 0

  private constructor(
    store: ObjectStore,
    last: Parent | undefined,
    parent: Parent | undefined,
    lastChanges: BackedUpChanges | undefined,
  ) {
    this.#store = store
    this.#last = last
    this.#parent = parent
    this.#lastChanges = lastChanges
  }

  /**
   * @param isFull whether to store all points in any case. They are also stored if the changes since the last time
   *   have become more than all points then
   */
  static async begin(backups: Backups, isFull: boolean): Promise<BackupWriter> {
    const { name } = backups.all.at(-1) ?? {}
    if (name === undefined) return new BackupWriter(backups.store, undefined, undefined, undefined)
    const manifest = await backups.manifest(name)
    const last = { name, manifest }
    const isLong = manifest.changeBytes > manifest.fullBytes
    let { changes } = manifest
    for (const each of backups.all.slice(-lookedAtMax, -1).reverse()) {
      changes ??= (await backups.manifest(each.name)).changes
      if (changes !== undefined) break
    }
    return new BackupWriter(backups.store, last, isFull || isLong ? undefined : last, changes)
  }

  /** Up to where the changes of the service are stored. */
  get storedPlace(): JournalPlace | undefined {
    return this.#lastChanges && { id: this.#lastChanges.id, at: this.#lastChanges.to }
  }

  /** The moment of a collection in the parent: later changes are enough. */
  since(name: string): Moment | undefined {
    const before = this.#before(name)
    return before && { databaseId: before.databaseId, sequence: before.sequence }
  }

  #before(name: string): BackedUpCollection | undefined {
    return this.#parent?.manifest.collections.find((each) => each.name === name)
  }

  /** Adds a collection from the bytes of its snapshot, or of its changes since `since`. Verifies them as they arrive. */
  async add(
    settings: Pick<BackedUpCollection, 'name' | 'dimension' | 'hnsw' | 'words' | 'quotas'>,
    snapshot: AsyncIterable<Uint8Array>,
  ): Promise<BackedUpCollection & { readonly bytes: number }> {
    const { name, hnsw, words, quotas } = settings
    const pieces = new Pieces(this.#store, this.#uploads)
    const reader = await SnapshotReader.open(pieces.passing(snapshot))
    this.#timeMs = Date.now()
    const { databaseId, sequence, changes, dimension = settings.dimension } = reader.header
    const before = this.#before(name)
    const isUnchanged = changes?.since === sequence
    if (changes !== undefined && (changes.since !== before?.sequence || databaseId !== before.databaseId)) {
      throw refused(`the changes of ${name} are not those since the last backup`)
    }
    const digest = new PartitionDigest()
    for await (const { id, version } of reader.packedPoints()) {
      if (changes === undefined) digest.add(id, version)
    }
    const whole = isUnchanged
      ? { points: before!.points, digest: before!.digest }
      : { points: changes?.orders.length ?? reader.header.points, digest: changes?.digest ?? digest.sum }
    if (!isUnchanged) await pieces.end()
    const added = {
      name,
      databaseId,
      sequence,
      ...(dimension === undefined ? {} : { dimension }),
      hnsw,
      ...(words && { words }),
      ...(quotas && { quotas }),
      ...whole,
      ...(changes && { since: changes.since }),
      pieces: pieces.names,
    }
    this.#collections.push(added)
    this.#bytes += pieces.bytes
    return { ...added, bytes: pieces.bytes }
  }

  /**
   * Adds the changes since the newest backup. Verifies them as they arrive.
   *
   * @param begin where the journal ended before the first snapshot
   * @param changesSince reads it up to its end after the last one
   * @returns whether changes since the newest backup are missing
   */
  async addChanges(
    begin: JournalRange,
    changesSince: (since: JournalPlace) => AsyncIterable<Uint8Array>,
  ): Promise<{ readonly end: JournalPlace | undefined; readonly isGap: boolean }> {
    const before = this.#lastChanges
    const isKept = before?.id === begin.id && before.to >= begin.start && before.to <= begin.to
    const continued = isKept ? await this.#readChanges(before, changesSince) : undefined
    const read = continued ?? (await this.#readChanges(begin, changesSince))
    if (read === undefined) throw refused('the changes of the service are damaged')
    const { range, pieces } = read
    // The journal has ended meanwhile.
    if (range?.id !== begin.id) return { end: undefined, isGap: true }
    const since = continued === undefined ? begin : before!
    if (range.from !== since.to) {
      throw new DatabaseError('not_ready', 'another backup has stored the changes meanwhile: try again')
    }
    const { id, from, to, sum, timeMs } = range
    if (from < to) await pieces.end()
    this.#timeMs = timeMs
    this.#journalBytes = pieces.bytes
    this.#changes = { id, from, to, sumBefore: since.sum, sum, begin: begin.to, pieces: pieces.names }
    return { end: { id, at: to }, isGap: before !== undefined && continued === undefined }
  }

  /** Reads changes from a place on; undefined if what comes there is of another history, or damaged. */
  async #readChanges(
    { id, to, sum: sumBefore }: Pick<JournalRange, 'id' | 'to' | 'sum'>,
    changesSince: (since: JournalPlace) => AsyncIterable<Uint8Array>,
  ): Promise<{ readonly range: JournalRange | undefined; readonly pieces: Pieces } | undefined> {
    const pieces = new Pieces(this.#store, this.#uploads)
    let [sum, headLeft] = [sumBefore, rangeBytes]
    async function* summed(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      for await (const chunk of chunks) {
        sum = crc32(chunk.subarray(Math.min(headLeft, chunk.length)), sum)
        headLeft = Math.max(0, headLeft - chunk.length)
        yield chunk
      }
    }
    let range: JournalRange | undefined
    try {
      for await (const record of recordsIn(pieces.passing(summed(changesSince({ id, at: to }))))) {
        if (record.kind === 'place') range = record
      }
    } catch (error) {
      if (error instanceof DatabaseError && error.reason === 'invalid_argument') return undefined
      throw error
    }
    const isSound = range?.id !== id || range.from !== to || range.sum === sum
    return isSound ? { range, pieces } : undefined
  }

  /**
   * Stores the manifest, unless nothing has changed since the parent, and no time is to be noted. Leaves out aliases of
   * collections that are not in the backup.
   *
   * @param notesTime whether moments since the parent shall be known to be the same, if changes are kept
   * @returns the newest backup, and whether it is new
   */
  async end(
    aliases: ReadonlyMap<string, string>,
    { notesTime }: { readonly notesTime: boolean },
  ): Promise<Backup & { readonly isNew: boolean; readonly manifest: BackupManifest }> {
    await this.#uploads.end()
    const names = new Set(this.#collections.map(({ name }) => name))
    const parent = this.#parent
    const last = this.#last?.manifest
    // A clock may have gone back.
    const timeMs = Math.max(this.#timeMs, last === undefined ? 0 : Date.parse(last.time) + 1)
    const content = {
      collections: this.#collections,
      aliases: Object.fromEntries([...aliases].filter(([, name]) => names.has(name)).sort()),
    }
    const [changes, before] = [this.#changes, last?.changes]
    const isOld = changes?.id === before?.id && changes?.to === before?.to && changes?.sum === before?.sum
    const isLeftOut = isOld && !(notesTime && changes !== undefined)
    if (parent !== undefined && isLeftOut && isSame(content, parent.manifest)) {
      const { name, manifest } = parent
      return { name, manifest, timeMs: Date.parse(manifest.time), isFull: false, isNew: false }
    }
    const isFull = this.#collections.every(({ since }) => since === undefined)
    const bytes = this.#bytes
    const manifest: BackupManifest = {
      version: backupVersion,
      time: new Date(timeMs).toISOString(),
      ...(isFull ? {} : { parent: parent!.name }),
      bytes: bytes + this.#journalBytes,
      changeBytes: isFull ? 0 : parent!.manifest.changeBytes + bytes,
      fullBytes: isFull ? bytes : parent!.manifest.fullBytes,
      ...content,
      ...(this.#changes && { changes: this.#changes }),
    }
    const text = Buffer.from(`${JSON.stringify(manifest, undefined, 1)}\n`)
    const time = manifest.time.replaceAll(':', '')
    const name = `${manifestFolder}/${time}-${isFull ? 'full' : 'more'}-${sha256(text)}.json`
    await this.#store.put(name, text)
    return { name, timeMs, isFull, isNew: true, manifest }
  }
}

/** Whether a backup has nothing that its parent has not. */
function isSame(
  { collections, aliases }: Pick<BackupManifest, 'collections' | 'aliases'>,
  parent: BackupManifest,
): boolean {
  const stateOf = ({ since: _, pieces: __, ...state }: BackedUpCollection): unknown => state
  const textOf = (all: readonly BackedUpCollection[], more: BackupManifest['aliases']): string =>
    JSON.stringify([all.map(stateOf), more])
  const areAllOld = collections.every(({ since, sequence }) => since === sequence)
  return areAllOld && textOf(collections, aliases) === textOf(parent.collections, parent.aliases)
}

/** Stores bytes in pieces. */
class Pieces {
  readonly #store: ObjectStore
  readonly #uploads: Parallel
  readonly names: string[] = []
  bytes = 0
  #chunks: Uint8Array[] = []
  #length = 0

  constructor(store: ObjectStore, uploads: Parallel) {
    this.#store = store
    this.#uploads = uploads
  }

  /** Yields the same bytes. */
  async *passing(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      this.#chunks.push(chunk)
      this.#length += chunk.length
      if (this.#length >= pieceBytes) await this.end()
      yield chunk
    }
  }

  /** Stores what is left. */
  async end(): Promise<void> {
    if (this.#length === 0) return
    const bytes = Buffer.concat(this.#chunks)
    this.#chunks = []
    this.#length = 0
    const name = `${pieceFolder}/${sha256(bytes)}`
    this.names.push(name)
    this.bytes += bytes.length
    await this.#uploads.add(() => this.#store.put(name, bytes))
  }
}

/** Some work in parallel. The first error ends it. */
class Parallel {
  readonly #running = new Set<Promise<void>>()
  readonly #errors: unknown[] = []

  async add(work: () => Promise<unknown>): Promise<void> {
    while (this.#running.size >= parallelMax) await Promise.race(this.#running)
    if (this.#errors.length > 0) throw this.#errors[0]
    const run: Promise<void> = work().then(
      () => void this.#running.delete(run),
      (error: unknown) => {
        this.#errors.push(error)
        this.#running.delete(run)
      },
    )
    this.#running.add(run)
  }

  async end(): Promise<void> {
    await Promise.all(this.#running)
    if (this.#errors.length > 0) throw this.#errors[0]
  }
}

async function eachOf<Item>(items: readonly Item[], work: (item: Item) => Promise<unknown>): Promise<void> {
  const running = new Parallel()
  for (const item of items) await running.add(() => work(item))
  await running.end()
}

/** Reads an object whose name has the checksum of its bytes. */
export async function checkedObject(store: ObjectStore, name: string): Promise<Buffer> {
  const bytes = await store.get(name)
  if (name.includes(sha256(bytes))) return bytes
  throw refused(`${name} does not match its checksum`)
}

function manifestIn(name: string, bytes: Buffer): BackupManifest {
  // Only a program that wrote it can have given it this name.
  const manifest = JSON.parse(bytes.toString()) as BackupManifest
  if (manifest.version !== backupVersion) {
    throw refused(`${name} has version ${manifest.version}, this program reads version ${backupVersion}`)
  }
  if (manifest.collections[0]?.name !== defaultCollection) throw refused(`${name} has no default collection`)
  return manifest
}

/** Reads a time like `2026-11-27T031500.123Z`. */
function timeIn(text: string): number {
  return Date.parse(text.replace(/T(..)(..)/, 'T$1:$2:'))
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

export function refused(fault: string): DatabaseError {
  return new DatabaseError('invalid_argument', `the backup cannot be used: ${fault}`)
}

const backupVersion = 2
const manifestFolder = 'backups'
const pieceFolder = 'objects'
const manifestName = /^backups\/(\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z)-(full|more)-[0-9a-f]{64}\.json$/
/** Large enough that a request of each costs little, small enough that some fit into memory. */
const pieceBytes = 8 * 1024 * 1024
/** Hides the latency of a store that is far away. */
export const parallelMax = 4
/** So many backups are searched for changes: those of a cluster have none. */
const lookedAtMax = 10
/** Longer than any backup takes. */
const safetyMs = 24 * 60 * 60 * 1000
