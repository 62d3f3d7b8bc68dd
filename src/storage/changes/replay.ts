import { DatabaseError } from '../../base/errors.ts'
import { idBytes, idFromBytes, idToBytes } from '../../base/ids.ts'
import { type Payload, payloadBytes } from '../../base/point.ts'
import { Turn } from '../../base/turns.ts'
import type { CatalogRecord } from '../catalog.ts'
import { rowViews } from '../key-layout.ts'
import { payloadOf, splitRecord } from '../payload-record.ts'
import { setSequence } from '../snapshot/snapshot-restore.ts'
import type { Change, CollectionRecord, DataStore, Store } from '../store.ts'
import { unpackPart } from '../writer/group-parts.ts'
import type { ChangeRecord, CollectionChange, PointsChange } from './change-format.ts'

/**
 * Applies a journal of changes to a data directory that a backup was restored to, up to a time.
 *
 * The snapshots of a backup are not of one moment. So the journal is applied from its place before the first snapshot
 * on, and what a snapshot has already is skipped. Collections were listed at an unknown moment in between: one that was
 * dropped before can appear here, and disappears again before the end of the backup.
 *
 * The changes of many commits are stored together, as each point is after them. Memory has the ids of the changed points
 * and the slots of those that the backup has.
 */
export class Replay {
  readonly #records: () => AsyncIterable<ChangeRecord>
  readonly #untilMs: number
  /** By database id of the collection: the changed points, by the latin1 text of their ids. */
  readonly #changed = new Map<string, ChangedPoints>()
  readonly #aliases = new Map<string, string>()
  /** By database id. */
  readonly #collections = new Map<string, ReplayedCollection>()
  #data!: DataStore
  #backedUpMs = 0
  #pendingBytes = 0

  private constructor(records: () => AsyncIterable<ChangeRecord>, untilMs: number) {
    this.#records = records
    this.#untilMs = untilMs
  }

  /**
   * Reads the changes for the first time, to know which points they concern.
   *
   * @param records called twice
   * @param untilMs later changes are not applied
   */
  static async of(records: () => AsyncIterable<ChangeRecord>, untilMs: number): Promise<Replay> {
    const replay = new Replay(records, untilMs)
    const turn = new Turn()
    for await (const record of replay.#upTo()) {
      if (record.kind !== 'points') continue
      const points = replay.#pointsOf(record.databaseId)
      for (const { id } of pointsIn(record)) points.slots.set(id, noSlot)
      if (turn.isOver) await turn.next()
    }
    return replay
  }

  async *#upTo(): AsyncGenerator<ChangeRecord> {
    for await (const record of this.#records()) {
      if (record.timeMs > this.#untilMs) return
      yield record
    }
  }

  #pointsOf(databaseId: string): ChangedPoints {
    const known = this.#changed.get(databaseId) ?? { slots: new Map<string, number>(), filled: 0 }
    this.#changed.set(databaseId, known)
    return known
  }

  /** Call for each point of the backup, in the order of their slots. */
  note(databaseId: string, id: string): void {
    const points = this.#pointsOf(databaseId)
    const key = Buffer.from(idToBytes(id)).toString('latin1')
    if (points.slots.has(key)) points.slots.set(key, points.filled)
    points.filled += 1
  }

  /**
   * Applies the changes.
   *
   * @param backedUpMs the time of the backup
   * @param collections those of the backup, by the database id there, with their sequence numbers there
   * @returns the aliases after the changes
   * @throws DatabaseError `invalid_argument` if they are not those after the backup
   */
  async apply(
    data: DataStore,
    backedUpMs: number,
    collections: ReadonlyMap<
      string,
      Pick<CollectionRecord, 'number' | 'name'> & { readonly sequence: number }
    >,
    aliases: ReadonlyMap<string, string>,
  ): Promise<ReadonlyMap<string, string>> {
    this.#data = data
    this.#backedUpMs = backedUpMs
    for (const [alias, name] of aliases) this.#aliases.set(alias, name)
    for (const [databaseId, { number, name, sequence }] of collections) {
      this.#add(databaseId, { number, name }, sequence)
    }
    try {
      for await (const record of this.#upTo()) {
        if (record.kind === 'points') await this.#applyPoints(record)
        else if (record.kind !== 'place') await this.#applyCollection(record)
        if (this.#pendingBytes >= groupBytes) await this.#flushAll()
      }
      await this.#flushAll()
    } finally {
      for (const { store } of this.#collections.values()) if (store !== data.main) await store?.close()
    }
    const names = new Set([...this.#collections.values()].map(({ name }) => name))
    return new Map([...this.#aliases].filter(([, name]) => names.has(name)))
  }

  #add(
    databaseId: string,
    { number, name }: Pick<CollectionRecord, 'number' | 'name'>,
    sequence: number,
  ): void {
    const { slots } = this.#pointsOf(databaseId)
    const store = number === 0 ? this.#data.main : undefined
    const numbers = { number, sequence, restored: sequence, dimension: undefined }
    this.#collections.set(databaseId, { ...numbers, name, store, slots, pending: new Map() })
  }

  async #applyPoints(record: PointsChange): Promise<void> {
    const { databaseId, since, sequence } = record
    const collection = this.#collections.get(databaseId)
    if (collection === undefined) return this.#passOver(record)
    // The snapshot has it.
    if (sequence <= collection.restored) return
    if (since !== collection.sequence) {
      const missing = `between ${collection.sequence} and ${since} of ${collection.name}`
      throw unusable(`changes are missing, ${missing}`)
    }
    const { pending, slots } = collection
    for (const point of pointsIn(record)) {
      const before = pending.get(point.id)
      const isStored = before === undefined ? slots.get(point.id) !== noSlot : before.after !== undefined
      if (point.after !== undefined && point.after.row === undefined && !isStored) {
        throw unusable(`a point of ${collection.name} was changed that is not there`)
      }
      const row = point.after?.row ?? before?.after?.row
      pending.set(point.id, point.after === undefined ? point : { ...point, after: { ...point.after, row } })
      const { payload } = point.after ?? {}
      this.#pendingBytes += pointWorkBytes + (point.after?.row?.vector.byteLength ?? 0)
      if (payload !== undefined) this.#pendingBytes += payloadBytes(payload)
    }
    collection.sequence = sequence
    collection.dimension = record.part.dimension || collection.dimension
  }

  /** Passes over a change of a collection that was dropped before the collections were listed. */
  #passOver({ timeMs, databaseId }: ChangeRecord & { readonly databaseId: string }): void {
    if (timeMs > this.#backedUpMs) throw unusable(`they are of another collection, ${databaseId}`)
  }

  async #applyCollection(change: CollectionChange): Promise<void> {
    const { kind, databaseId, collection: record } = change
    const known = this.#collections.get(databaseId)
    if (known === undefined) {
      const isThere = [...this.#collections.values()].some(({ name }) => name === record.name)
      if (kind === 'declared' || isThere) return this.#passOver(change)
      const { name, dimension, hnsw, words, quotas } = record
      this.#add(databaseId, await this.#data.create({ name, dimension, hnsw, words, quotas }), 0)
    } else if (record.isDropped) {
      await known.store?.close()
      await this.#data.drop(known.name)
      this.#collections.delete(databaseId)
    } else {
      await this.#data.declare(known.number, { words: record.words, quotas: record.quotas })
    }
    this.#setAliases(record)
  }

  #setAliases({ name, aliases, isDropped }: CatalogRecord): void {
    for (const [alias, target] of this.#aliases) if (target === name) this.#aliases.delete(alias)
    if (!isDropped) for (const alias of aliases) this.#aliases.set(alias, name)
  }

  async #flushAll(): Promise<void> {
    for (const collection of this.#collections.values()) await this.#flush(collection)
    this.#pendingBytes = 0
  }

  /** Stores the points as they are after the changes. */
  async #flush(collection: ReplayedCollection): Promise<void> {
    const { pending, slots, number, sequence } = collection
    if (sequence === collection.restored && pending.size === 0) return
    collection.store ??= await this.#data.open(number)
    const { store } = collection
    const changes: Change[] = []
    const places: number[] = []
    const leaving: (number | undefined)[] = []
    let { slotCount } = store
    for (const [id, { after, sequence: version }] of pending) {
      const slot = slots.get(id)!
      const text = idFromBytes(Buffer.from(id, 'latin1'))
      if (after === undefined) {
        slots.set(id, noSlot)
        if (slot === noSlot) continue
        changes.push({ kind: 'delete', id: text, sequence: version })
        places.push(slot)
        leaving.push(undefined)
      } else if (after.row === undefined) {
        const { order, payload } = after
        changes.push({ kind: 'update', id: text, sequence: version, order, payload, vector: undefined })
        places.push(slot)
        leaving.push(undefined)
      } else {
        const { order, payload, row } = after
        const point = { vector: row.vector, payload }
        changes.push({ kind: 'insert', id: text, sequence: row.sequence, version, order, point })
        places.push(slotCount)
        leaving.push(slot === noSlot ? undefined : slot)
        slots.set(id, slotCount)
        slotCount += 1
      }
    }
    pending.clear()
    if (changes.length > 0) await store.commit({ changes, slots: places, leaving })
    await setSequence(store, sequence, collection.dimension)
  }
}

interface ChangedPoints {
  /** By the latin1 text of their ids; `noSlot` for points that are not stored. */
  readonly slots: Map<string, number>
  /** How many points of the backup there are so far. */
  filled: number
}

interface ReplayedCollection extends Pick<CollectionRecord, 'number' | 'name'> {
  readonly slots: Map<string, number>
  /** Sequence number of the snapshot. */
  readonly restored: number
  /** Sequence number of the last change that was read. */
  sequence: number
  /** That of the changed vectors. */
  dimension: number | undefined
  store: Store | undefined
  /** The points as they are after the changes that are not stored yet. */
  readonly pending: Map<string, ReplayedPoint>
}

/** A point after a change. */
interface ReplayedPoint {
  /** As latin1. */
  readonly id: string
  /** Of the change. */
  readonly sequence: number
  /** Undefined if it was deleted. */
  readonly after?: {
    readonly order: number
    readonly payload: Payload
    /** Undefined if the change left the vector as it was. */
    readonly row: { readonly sequence: number; readonly vector: Float32Array } | undefined
  }
}

/** @throws DatabaseError if a point is damaged */
function* pointsIn({ part, deleted, sequence }: PointsChange): Generator<ReplayedPoint> {
  const { packed, rowsBytes, dimension } = part
  const unpacked = unpackPart({
    ...{ kind: 'part', collection: 0, leftSlots: undefined, keyedRequests: undefined, applied: undefined },
    ...{ packed, rowsBytes, dimension, sequence, isLast: true },
  })
  const rows = rowsBytes === 0 ? [] : rowViews(unpacked.rows, dimension)
  let next = 0
  for (const { slot, value } of unpacked.records) {
    const record = splitRecord(value)
    const view = unpacked.rowSlots[next] === slot ? rows[next] : undefined
    if (view !== undefined) next += 1
    const rowSequence = view?.verify()
    if (record === undefined || (view !== undefined && rowSequence === undefined)) {
      throw unusable('a point does not match its checksum')
    }
    const row = view && { sequence: rowSequence!, vector: view.vector.slice() }
    const after = { order: record.order, payload: payloadOf(record), row }
    yield { id: record.id.toString('latin1'), sequence: record.version, after }
  }
  for (let at = 0; at < deleted.length; at += idBytes) {
    yield { id: deleted.toString('latin1', at, at + idBytes), sequence }
  }
}

function unusable(fault: string): DatabaseError {
  return new DatabaseError('invalid_argument', `the changes cannot be used: ${fault}`)
}

const noSlot = -1
/** Large, so that there are few syncs. */
const groupBytes = 16 * 1024 * 1024
/** Bytes of memory for a changed point in addition to its vector and payload. */
const pointWorkBytes = 512
