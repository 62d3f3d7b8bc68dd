import type { Filter } from '../../src/base/filter.ts'
import { idBytes, idFromBytes, idToBytes } from '../../src/base/ids.ts'
import { idsFromSeed, type PartitionSet, partitionOf } from '../../src/base/partitions.ts'
import type { Patch, Payload, Precondition } from '../../src/base/point.ts'
import { RecordAssembler } from '../../src/cluster/log/records.ts'
import { decodeInTurns } from '../../src/cluster/log/request-codec.ts'
import { PartitionDigest } from '../../src/storage/applied.ts'
import { changesPerRecord, type LoggedInsert, type LoggedRequest } from '../../src/write/requests.ts'
import type { SharedMemoryLog } from './memory-log.ts'

/** A point of the model; `n` is the only attribute. */
export interface ModelPoint {
  readonly version: number
  readonly content: string
  readonly n: number
  readonly expiresAtUs: number | undefined
  /** The number of the change that inserted it. */
  readonly order: number
}

/** The outcome of a request: its answer, or the reason why it was refused. */
export type ModelOutcome = { readonly answer: unknown } | { readonly refused: string }

/**
 * A reference implementation that applies a log with plain maps and loops, one record at a time. It supports only the
 * requests that the simulation sends: one collection with the attribute `n`.
 */
export class ClusterModel {
  /** All stored points, including expired ones that are not deleted yet. */
  readonly points: Map<string, ModelPoint> = new Map()
  /** Outcomes by request name (see `nameOf`). */
  readonly outcomes: Map<string, ModelOutcome> = new Map()
  /** By id: the states of the point, each with the position from which it holds. */
  readonly #history = new Map<
    string,
    { readonly position: number; readonly point: ModelPoint | undefined }[]
  >()
  /** The clock of each log position. */
  readonly #clocks: number[] = [0]
  /** By idempotency key: the request, the number of its first change, and the ids that it drew. */
  readonly #keys = new Map<
    string,
    { readonly body: string; readonly first: number; readonly drawn: Buffer }
  >()

  static async read(log: SharedMemoryLog): Promise<ClusterModel> {
    const model = new ClusterModel()
    const connection = log.connect()
    const assembler = new RecordAssembler(connection, { cacheBytesMax: 2 ** 26 })
    for (let position = 1; position <= log.bounds.last; position += 1) {
      const batch = await assembler.accept((await connection.get(position))!)
      const before = model.#clocks.at(-1)!
      if (batch === undefined) {
        model.#clocks.push(before)
        continue
      }
      const { request, timeUs } = await decodeInTurns(batch.payload)
      model.#clocks.push(Math.max(before, Math.min(timeUs, (batch.appendedMs + 10_000) * 1000)))
      if (!('points' in request || 'id' in request || 'ids' in request)) continue
      const outcome = model.#apply(request, position)
      const name = nameOf(request)
      // Otherwise it is a retry of the same request, whose first attempt got no answer.
      if (!model.outcomes.has(name)) model.outcomes.set(name, outcome)
    }
    return model
  }

  /** The digest of the points in these partitions. */
  digestOf(held: PartitionSet): Uint8Array {
    const digest = new PartitionDigest()
    for (const [id, { version }] of this.points) {
      if (held.has(partitionOf(id))) digest.add(idToBytes(id), version)
    }
    return digest.bytes
  }

  /** The ids of all points that ever existed. */
  get ids(): Iterable<string> {
    return this.#history.keys()
  }

  /** The points that have not expired, by id. */
  get visible(): ReadonlyMap<string, ModelPoint> {
    return new Map([...this.points].filter(([, point]) => !isExpired(point, this.#clocks.at(-1)!)))
  }

  /**
   * Whether a point had this version (undefined: was not visible) at any position in this range. A record first moves
   * the clock and then changes points: reads can see the moment between, when a point has expired that the record
   * stores again.
   */
  couldBe(id: string, version: number | undefined, from: number, to: number): boolean {
    const history = this.#history.get(id) ?? []
    const versionAt = (position: number, clockUs: number): number | undefined => {
      const point = history.findLast((each) => each.position <= position)?.point
      return point === undefined || isExpired(point, clockUs) ? undefined : point.version
    }
    for (let position = from; position <= to; position += 1) {
      const clockUs = this.#clocks[position]!
      if (versionAt(position, clockUs) === version) return true
      if (position > from && versionAt(position - 1, clockUs) === version) return true
    }
    return false
  }

  /** The states of a point and the clocks of a range of positions, for failure messages. */
  describe(id: string, from: number, to: number): string {
    const states = this.#history.get(id)?.map(({ position, point }) => {
      const expiry = point?.expiresAtUs === undefined ? '' : ` until ${point.expiresAtUs}`
      return `${position}: ${point === undefined ? 'removed' : `version ${point.version}${expiry}`}`
    })
    return `states ${states?.join(', ')}; clocks from ${from} on: ${this.#clocks.slice(from, to + 1).join(', ')}`
  }

  #apply(request: LoggedRequest, position: number): ModelOutcome {
    const clockUs = this.#clocks[position]!
    const find = (id: string): ModelPoint | undefined => {
      const point = this.points.get(id)
      return point === undefined || isExpired(point, clockUs) ? undefined : point
    }
    const first = position * changesPerRecord
    if (request.kind === 'insert') return this.#insert(request, position, find)
    if (request.kind === 'put') {
      const before = find(request.id)
      if (!holds(request.when, before)) return { refused: 'precondition_failed' }
      this.#set(request.id, position, pointOf(first, request.point.payload, before))
      return { answer: { version: first, created: before === undefined } }
    }
    if (request.kind === 'patch') {
      const before = find(request.id)
      if (before === undefined) return { refused: 'not_found' }
      if (!holds(request.when, before)) return { refused: 'precondition_failed' }
      this.#set(request.id, position, patched(before, request.patch, first))
      return { answer: { version: first } }
    }
    if (request.kind === 'remove') {
      if (find(request.id) === undefined) return { answer: false }
      this.#set(request.id, position, undefined)
      return { answer: true }
    }
    let changed = 0
    for (const [index, id] of request.ids.entries()) {
      const before = request.kind === 'expire' ? this.points.get(id) : find(id)
      if (before === undefined) continue
      if (request.kind === 'expire') {
        if (!isExpired(before, clockUs)) continue
        this.#set(id, position, undefined)
      } else {
        if (!matches(request.filter, before)) continue
        const after = request.change === 'delete' ? undefined : patched(before, request.change, first + index)
        if (after !== undefined && isSame(before, after)) continue
        this.#set(id, position, after)
      }
      changed += 1
    }
    return { answer: changed }
  }

  #insert(
    request: LoggedInsert,
    position: number,
    find: (id: string) => ModelPoint | undefined,
  ): ModelOutcome {
    const { points, onError, identity, idSeed } = request
    const key = identity && Buffer.from(identity.keyHash).toString('hex')
    const body = identity === undefined ? '' : Buffer.from(identity.bodyHash).toString('hex')
    const kept = key === undefined ? undefined : this.#keys.get(key)
    if (kept !== undefined && kept.body !== body) return { refused: 'key_reused' }
    const given = points.map(({ id }) => id)
    const isTwice = (index: number): boolean =>
      given[index] !== undefined && given.indexOf(given[index]) !== index
    if (onError === 'abort' && points.some((_, index) => isTwice(index)))
      return { refused: 'invalid_argument' }
    const first = kept?.first ?? position * changesPerRecord
    const drawn = kept?.drawn ?? idsFromSeed(idSeed, points.length, true)
    if (key !== undefined) this.#keys.set(key, { body, first, drawn })
    const changes: [string, ModelPoint][] = []
    const ids: (string | null)[] = []
    for (const [index, { id = idFromBytes(drawn, index * idBytes), ...point }] of points.entries()) {
      if (isTwice(index)) {
        ids.push(null)
        continue
      }
      const before = points[index]!.id === undefined ? undefined : find(id)
      const mustNotExist = points[index]!.id !== undefined && (point.onConflict ?? 'error') === 'error'
      // A repeated insert has stored a point if the one that is there now was inserted by it.
      const isRefused = kept === undefined ? before !== undefined : before?.order !== first + index
      if (mustNotExist && isRefused) {
        if (onError === 'abort')
          return { refused: before === undefined ? 'precondition_failed' : 'already_exists' }
        ids.push(null)
        continue
      }
      ids.push(id)
      if (kept !== undefined || (before !== undefined && point.onConflict === 'skip')) continue
      changes.push([id, pointOf(first + index, point.payload, before)])
    }
    for (const [id, point] of changes) this.#set(id, position, point)
    return { answer: ids }
  }

  #set(id: string, position: number, point: ModelPoint | undefined): void {
    if (point === undefined) this.points.delete(id)
    else this.points.set(id, point)
    const history = this.#history.get(id) ?? []
    history.push({ position, point })
    this.#history.set(id, history)
  }
}

/** Identifies a request by the unique content that the simulation puts into it; a removal by its ids. */
export function nameOf(request: LoggedRequest): string {
  if (request.kind === 'insert') return request.points[0]!.payload.content
  if (request.kind === 'put') return request.point.payload.content
  if (request.kind === 'patch') return request.patch.content!
  if (request.kind === 'each' && request.change !== 'delete') return request.change.content ?? ''
  return `${request.kind} of ${request.kind === 'remove' ? request.id : request.ids.join()}`
}

function pointOf(version: number, payload: Payload, before: ModelPoint | undefined): ModelPoint {
  const { content, attributes, expiresAtUs } = payload
  return { version, content, n: attributes?.get('n') as number, expiresAtUs, order: before?.order ?? version }
}

function patched(before: ModelPoint, { content, set, expiresAtUs }: Patch, version: number): ModelPoint {
  return {
    version,
    content: content ?? before.content,
    n: (set?.get('n') as number | undefined) ?? before.n,
    expiresAtUs: expiresAtUs === undefined ? before.expiresAtUs : (expiresAtUs ?? undefined),
    order: before.order,
  }
}

function isSame(one: ModelPoint, other: ModelPoint): boolean {
  return one.content === other.content && one.n === other.n && one.expiresAtUs === other.expiresAtUs
}

function isExpired({ expiresAtUs }: ModelPoint, clockUs: number): boolean {
  return expiresAtUs !== undefined && expiresAtUs <= clockUs
}

function holds(when: Precondition | undefined, point: ModelPoint | undefined): boolean {
  if (when === undefined) return true
  if (when.kind === 'absent') return point === undefined
  if (point === undefined) return false
  return when.kind === 'version' ? point.version === when.version : matches(when.filter, point)
}

/** Evaluates the only kind of filter that the simulation uses. */
function matches(filter: Filter, { n }: ModelPoint): boolean {
  if (filter.kind !== 'condition' || filter.test.op !== 'range') throw new Error('an unknown filter')
  return n >= (filter.test.bounds.gte as number)
}
