import { closeSync, existsSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { attributesToJson, DateTime, formatDateTime, jsonNumbers } from '../../base/attributes.ts'
import { defaultCollection } from '../../base/collection.ts'
import { beyondRepair } from '../../base/errors.ts'
import { writeWholeFile } from '../../base/files.ts'
import { idBytes, idFromBytes } from '../../base/ids.ts'
import { newId } from '../../base/partitions.ts'
import type { Payload } from '../../base/point.ts'
import { Catalog, leftovers, mainNumber, numbersOnDisk } from '../catalog.ts'
import { journalEnder } from '../changes/change-journal.ts'
import {
  checkReplaced,
  checkWritable,
  DirectoryLock,
  databasePath,
  indexDirectory,
  makeDirectory,
  setAsidePath,
} from '../files/data-directory.ts'
import { readFully } from '../files/row-file.ts'
import {
  decodeBlock,
  emptyBlock,
  emptyQueue,
  encodeBlock,
  encodeDatabaseId,
  encodeMeta,
  faultOfRowsHeader,
  firstRequestKey,
  isKeyOfRequest,
  isRowsHeader,
  type Meta,
  metaKeys,
  type RowView,
  rowBytesOf,
  rowsHeader,
  rowsHeaderBytes,
  rowViews,
  slotsPerBlock,
} from '../key-layout.ts'
import { faultsOfRequests, removeRequests } from '../keyed-requests.ts'
import { hasSoundAttributes, payloadOf, type RecordParts, splitRecord } from '../payload-record.ts'
import type { CollectionRecord, StoredRow } from '../store.ts'
import { addSlot, damagedBlock, slotsIn } from '../table.ts'
import { type DataTables, openDamagedDatabase, readDatabaseId, readMeta, type Tables } from '../tables.ts'

/** A damaged point. */
interface DamagedPoint {
  readonly slot: number
  /** Undefined if nothing that is left of the point contains it. */
  readonly id: string | undefined
  readonly fault: string
}

/** The result of a survey. */
export interface Findings {
  /** Number of undamaged points. */
  readonly points: number
  /** All damaged points, in the order of slots. */
  readonly damage: readonly DamagedPoint[]
  /** Damage that does not belong to one point. */
  readonly faults: readonly string[]
  /** The largest sequence number of an undamaged row or record. */
  readonly newest: number
  /** The bits of the slots of undamaged points, by block. */
  readonly live: ReadonlyMap<number, Buffer>
}

/** The bytes of one point on disk. */
interface PointBytes {
  /** Undefined if the file ends before the row. */
  readonly row: RowView | undefined
  readonly payload: Buffer | undefined
}

/**
 * Reads stored data that may be damaged, point by point, and changes nothing. A point is undamaged if its slot is live,
 * its row and its payload match their checksums and have the same id, and no other point has this id.
 */
export class Survey implements Disposable {
  readonly dataDir: string
  readonly meta: Meta
  readonly tables: Tables
  readonly #rows: RowWindow | undefined

  /**
   * Begins a survey of one collection.
   *
   * @throws Error if the collection is so damaged that nothing can be read
   */
  constructor(dataDir: string, tables: Tables) {
    this.dataDir = dataDir
    this.tables = tables
    this.meta = readMeta(tables)
    const { dimension } = this.meta
    this.#rows = dimension === undefined ? undefined : new RowWindow(tables.files.rows, dimension)
  }

  /**
   * Reads all points.
   *
   * @param each called for each undamaged point; its argument is overwritten after it returns
   */
  read(each: (row: StoredRow) => void): Findings {
    const { blocks, damagedBlocks } = this.#liveBlocks()
    const damage: DamagedPoint[] = []
    const ids = new Set<string>()
    const live = new Map<number, Buffer>()
    let newest = 0
    let found = 0
    for (const { slot, isLive, payload } of placesOf(this.tables, blocks)) {
      found += 1
      const row = this.#rows?.row(slot)
      const sequence = row?.verify()
      const record = payload && splitRecord(payload)
      newest = Math.max(newest, sequence ?? 0, record?.version ?? 0)
      const id = idOf(row, sequence, payload)
      const faults = [...this.#faultsOfRow(slot, row, sequence)]
      if (payload === undefined) faults.push(`its payload in ${this.#database} is missing`)
      else faults.push(...this.#faultsOfRecord(record, row, sequence))
      // If a block of live bits is lost, the payloads show which slots were live.
      if (!isLive && !damagedBlocks.has(Math.floor(slot / slotsPerBlock))) faults.push('its slot is not live')
      if (faults.length === 0 && ids.has(id!)) faults.push('another point has its id')
      if (faults.length > 0) {
        damage.push({ slot, id, fault: faults.length === 1 ? faults[0]! : faults.join(', and ') })
        continue
      }
      ids.add(id!)
      addSlot(live, slot)
      each({ slot, id: row!.id, sequence: sequence!, vector: row!.vector })
    }
    const faults = [...this.#otherFaults(), ...[...damagedBlocks].map(damagedBlock)]
    if (found !== this.meta.pointCount) {
      faults.push(`${this.meta.pointCount} points were stored, but there are traces of ${found}`)
    }
    return { points: ids.size, damage, faults, newest, live }
  }

  /** Damage in the records of idempotency keys. */
  get requestFaults(): readonly string[] {
    const { count } = this.meta.keyedRequests
    let stored = 0
    for (const key of this.tables.meta.getKeys({ start: firstRequestKey }))
      stored += isKeyOfRequest(key) ? 1 : 0
    const isShort = stored !== count
    return [
      ...faultsOfRequests(this.tables.meta),
      ...(isShort ? [`${count} keyed requests were stored, but there are ${stored}`] : []),
    ]
  }

  /** The bytes of one point on disk, valid until the next call. */
  bytesOf(slot: number): PointBytes {
    return { row: this.#rows?.row(slot), payload: this.tables.payloads.getBinary(slot) }
  }

  [Symbol.dispose](): void {
    this.#rows?.[Symbol.dispose]()
  }

  #liveBlocks(): { blocks: ReadonlyMap<number, Buffer>; damagedBlocks: ReadonlySet<number> } {
    const blocks = new Map<number, Buffer>()
    const damagedBlocks = new Set<number>()
    for (const { key, value } of this.tables.live.getRange()) {
      const bits = decodeBlock(key, value)
      if (bits === undefined) damagedBlocks.add(key)
      else blocks.set(key, bits)
    }
    return { blocks, damagedBlocks }
  }

  get #database(): string {
    return basename(this.tables.files.database)
  }

  *#faultsOfRow(slot: number, row: RowView | undefined, sequence: number | undefined): Generator<string> {
    if (slot >= this.meta.slotCount) yield 'its slot is beyond the last one'
    if (row === undefined) yield 'its row in vectors.rows is cut off'
    else if (sequence === undefined) yield 'its row in vectors.rows does not match its checksum'
    else if (sequence > this.meta.sequence) yield 'its row in vectors.rows is newer than the last change'
  }

  *#faultsOfRecord(
    record: RecordParts | undefined,
    row: RowView | undefined,
    sequence: number | undefined,
  ): Generator<string> {
    const its = `its payload in ${this.#database}`
    if (record === undefined) {
      yield `${its} does not match its checksum`
      return
    }
    if (!hasSoundAttributes(record)) yield `${its} has attributes that cannot be read`
    if (sequence === undefined) return
    if (!record.id.equals(row!.id)) yield `${its} belongs to another point`
    const { version, order } = record
    if (version > this.meta.sequence) yield `${its} is newer than the last change`
    else if (order > sequence || version < sequence) yield `${its} does not match its row in vectors.rows`
  }

  #otherFaults(): string[] {
    const faults: string[] = []
    if (this.#rows?.isHeaderDamaged) faults.push('the header of vectors.rows is damaged')
    try {
      readDatabaseId(this.tables)
    } catch {
      faults.push('the database id does not match its checksum')
    }
    faults.push(...this.requestFaults)
    return faults
  }
}

/** Reads rows by slot, many at a time. */
class RowWindow implements Disposable {
  readonly isHeaderDamaged: boolean
  readonly #file: number
  readonly #rowBytes: number
  readonly #bytes: Buffer
  readonly #views: readonly RowView[]
  #first = 0
  #whole = 0

  /** @throws DatabaseError if the file is missing, or of another dimension or version */
  constructor(path: string, dimension: number) {
    if (!existsSync(path)) throw beyondRepair(path, 'it is missing')
    this.#file = openSync(path, 'r')
    const header = Buffer.alloc(rowsHeaderBytes)
    readSync(this.#file, header, 0, rowsHeaderBytes, 0)
    this.isHeaderDamaged = !isRowsHeader(header)
    const fault = faultOfRowsHeader(header, dimension)
    if (fault !== undefined && !this.isHeaderDamaged) {
      closeSync(this.#file)
      throw beyondRepair(path, fault)
    }
    this.#rowBytes = rowBytesOf(dimension)
    this.#bytes = Buffer.allocUnsafeSlow(Math.max(windowBytes, this.#rowBytes))
    this.#views = rowViews(this.#bytes, dimension)
  }

  /** Returns undefined if the file ends before the end of the row. */
  row(slot: number): RowView | undefined {
    if (slot < this.#first || slot >= this.#first + this.#whole) this.#moveTo(slot)
    return slot - this.#first < this.#whole ? this.#views[slot - this.#first] : undefined
  }

  [Symbol.dispose](): void {
    closeSync(this.#file)
  }

  #moveTo(slot: number): void {
    const read = readFully(
      this.#file,
      this.#bytes,
      this.#bytes.length,
      rowsHeaderBytes + slot * this.#rowBytes,
    )
    this.#first = slot
    this.#whole = Math.floor(read / this.#rowBytes)
  }
}

/** A slot that is live, has a payload, or both. */
interface Place {
  readonly slot: number
  readonly isLive: boolean
  readonly payload: Buffer | undefined
}

/** Yields the places in the order of slots. */
function* placesOf({ payloads }: Tables, blocks: ReadonlyMap<number, Buffer>): Generator<Place> {
  const liveSlots = slotsIn(blocks)
  let live = liveSlots.next()
  for (const { key: slot, value: payload } of payloads.getRange()) {
    while (!live.done && live.value < slot) {
      yield { slot: live.value, isLive: true, payload: undefined }
      live = liveSlots.next()
    }
    const isLive = !live.done && live.value === slot
    if (isLive) live = liveSlots.next()
    yield { slot, isLive, payload }
  }
  for (; !live.done; live = liveSlots.next()) yield { slot: live.value, isLive: true, payload: undefined }
}

/** The id of a point, from its undamaged part. If both parts are damaged, the id on which row and payload agree. */
function idOf(
  row: RowView | undefined,
  sequence: number | undefined,
  payload: Buffer | undefined,
): string | undefined {
  if (sequence !== undefined) return idFromBytes(row!.id)
  const stated = payload?.subarray(0, idBytes)
  if (stated === undefined || stated.length < idBytes) return undefined
  return splitRecord(payload!) !== undefined || row?.id.equals(stated) ? idFromBytes(stated) : undefined
}

const windowBytes = 256 * 1024

/** Finds the damage in all collections of a data directory. It changes nothing. */
export class DirectorySurvey implements AsyncDisposable {
  /** Survey of the default collection. */
  readonly main: Survey
  /** The named collections in the order of their numbers. */
  readonly collections: readonly CollectionRecord[]
  readonly #dataDir: string
  readonly #tables: DataTables
  readonly #opened: AsyncDisposableStack

  private constructor(dataDir: string, opened: AsyncDisposableStack) {
    this.#dataDir = dataDir
    const catalog = new Catalog()
    const { root, tables, checked } = openDamagedDatabase(dataDir)
    opened.defer(() => root.close())
    catalog.read(tables.catalog, databasePath(dataDir), checked.keys())
    leftovers(dataDir, catalog)
    this.#tables = tables
    this.main = new Survey(dataDir, tables.of(mainNumber, defaultCollection))
    opened.use(this.main)
    this.collections = [...catalog.collections.values()].sort((a, b) => a.number - b.number)
    this.#opened = opened.move()
  }

  /**
   * Locks the directory until it is closed.
   *
   * @throws Error if the directory is in use, has nothing, or is so damaged that nothing can be read
   */
  static async open(path: string): Promise<DirectorySurvey> {
    const dataDir = resolve(path)
    await using opened = new AsyncDisposableStack()
    if (!checkWritable(dataDir)) throw new Error(`there is no data directory ${dataDir} (DATA_DIR)`)
    checkReplaced(dataDir)
    // The lock would create its file, and a backup can be restored into an empty directory only.
    if (!existsSync(databasePath(dataDir)) && numbersOnDisk(dataDir).length === 0)
      throw new Error(`nothing is stored in ${dataDir}`)
    const lock = DirectoryLock.acquire(dataDir)
    opened.defer(() => lock.release())
    return new DirectorySurvey(dataDir, opened)
  }

  /**
   * Opens the survey of a named collection. The caller closes it.
   *
   * @throws Error if the collection is so damaged that nothing of it can be read
   */
  collection({ number, name }: CollectionRecord): Survey {
    return new Survey(this.#dataDir, this.#tables.of(number, name))
  }

  indexDirectory({ number }: Pick<CollectionRecord, 'number'>): string {
    return indexDirectory(this.#dataDir, number)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync()
  }
}

/**
 * Removes damaged points from the data, so that the rest can be served:
 *
 *   write their remains to a file, sync ─> write the header of vectors.rows, sync ─> one LMDB transaction
 *
 * If the process is killed before the transaction, the damage is unchanged and there is at most one extra file; after
 * it, the repair is complete. So it can always be repeated. Removed points take sequence numbers as if they had been
 * deleted: otherwise a graph on disk could mistake the next point in a slot for the removed one. The database gets a
 * new id, because its history is no longer that of its snapshots. If any record of an idempotency key is damaged, all
 * of them are removed.
 *
 * @returns the file with the points that were set aside; undefined if there were none
 */
export async function repair(survey: Survey, findings: Findings): Promise<string | undefined> {
  const { damage } = findings
  const file = damage.length === 0 ? undefined : await keep(survey, damage)
  const { dimension } = survey.meta
  if (dimension !== undefined) writeHeader(survey.tables.files.rows, dimension)
  commit(survey, findings)
  return file
}

async function keep(survey: Survey, damage: readonly DamagedPoint[]): Promise<string> {
  const directory = setAsidePath(survey.dataDir)
  makeDirectory(directory)
  const whose = encodeURIComponent(survey.tables.files.collection)
  const name = `points-${whose}-${new Date().toISOString().replaceAll(':', '-')}.jsonl`
  const { path } = await writeWholeFile(join(directory, 'partial'), async (file) => {
    for (const point of damage) await file.writeFile(lineOf(survey, point))
    return join(directory, name)
  })
  return path
}

/** Formats a damaged point as a line of JSON: undamaged parts as `import` reads them, damaged parts as bytes. */
function lineOf(survey: Survey, { slot, id, fault }: DamagedPoint): string {
  const { row, payload } = survey.bytesOf(slot)
  const sequence = row?.verify()
  const record = payload && splitRecord(payload)
  const whole = record && hasSoundAttributes(record) ? payloadOf(record) : undefined
  const fields = JSON.stringify({
    id,
    slot,
    fault,
    ...(sequence === undefined ? { damaged_row: row?.bytes.toString('base64') } : { sequence }),
    ...(whole === undefined ? { damaged_payload: payload?.toString('base64') } : fieldsOf(whole)),
    ...(record === undefined ? {} : { version: record.version, order: record.order }),
  })
  return sequence === undefined
    ? `${fields}\n`
    : `${fields.slice(0, -1)},"vector":${jsonNumbers(row!.vector)}}\n`
}

function fieldsOf({ contentType, content, attributes, expiresAtUs }: Payload): object {
  return {
    content_type: contentType,
    content,
    ...(attributes === undefined ? {} : { attributes: JSON.parse(attributesToJson(attributes)) as object }),
    ...(expiresAtUs === undefined ? {} : { expires_at: formatDateTime(new DateTime(expiresAtUs)) }),
  }
}

function writeHeader(path: string, dimension: number): void {
  const file = openSync(path, 'r+')
  try {
    const header = rowsHeader(dimension)
    for (let at = 0; at < header.length; ) at += writeSync(file, header, at, header.length - at, at)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

function commit({ meta, tables, requestFaults }: Survey, { damage, points, newest, live }: Findings): void {
  const blocks = [...new Set([...tables.live.getKeys(), ...live.keys()])]
  const sequence = Math.max(meta.sequence, newest) + damage.length
  const endJournal = journalEnder(tables.root)
  tables.root.transactionSync(() => {
    for (const { slot } of damage) tables.payloads.removeSync(slot)
    for (const block of blocks) {
      const bits = live.get(block) ?? emptyBlock
      const stored = tables.live.getBinary(block)
      const isSame = stored !== undefined && decodeBlock(block, stored)?.equals(bits)
      if (!isSame) tables.live.putSync(block, encodeBlock(block, bits))
    }
    // Remove all, not some: a repeated request that is not recognized would store its points twice.
    const removesRequests = requestFaults.length > 0
    if (removesRequests) removeRequests(tables.meta)
    const keyedRequests = removesRequests ? emptyQueue : meta.keyedRequests
    // A replica that has lost points is no longer a replica. It joins its cluster again.
    const repaired = { ...meta, sequence, pointCount: points, keyedRequests, applied: undefined }
    tables.meta.putSync(metaKeys.state, encodeMeta(repaired))
    tables.meta.putSync(metaKeys.databaseId, encodeDatabaseId(newId()))
    endJournal()
  })
}
