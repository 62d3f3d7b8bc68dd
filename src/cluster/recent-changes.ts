import { idBytes, idFromBytes, idsFromSeed } from '../base/ids.ts'
import { partitionOf } from '../base/partitions.ts'
import type { ClusterRequest } from './request-codec.ts'

/** What one record may have changed. */
interface Noted {
  readonly position: number
  /** Given by callers. */
  readonly ids: readonly string[]
  /** Of an insert with ids from its seed. */
  readonly drawn?: { readonly seed: Uint8Array; readonly count: number }
  /** Collections or aliases: any point may be another one. */
  readonly isAll?: boolean
}

/**
 * Which points the last records of the log are about, those of other nodes too. So every node knows whether something that
 * was found at a position still counts, by the log alone.
 *
 * What is kept is bounded; what was found before that does not count any more. These bounds decide what nodes do, so they
 * are no settings: they have to be the same on all nodes.
 */
export class RecentChanges {
  /** The oldest first. */
  readonly #records: Noted[] = []
  #ids = 0
  #since: number
  /** Records up to here were too many to be kept. */
  #cut = 0

  /** @param since records after this position will be noted */
  constructor(since: number) {
    this.#since = since
  }

  /** Whether what was found at a position can be judged. */
  covers(asOf: number): boolean {
    return asOf >= this.#since
  }

  /** Call it for each request of the log, in order. */
  note(position: number, request: ClusterRequest): void {
    const record = recordOf(position, request)
    if (record === undefined) return
    this.#records.push(record)
    this.#ids += record.ids.length
    while (this.#ids > idsMax) this.#cut = this.#dropFirst()
    while (this.#records.length > 0 && this.#records[0]!.position <= position - recordsMax) this.#dropFirst()
  }

  /** Whether a record after `asOf` may have changed one of these points. */
  hasAny(ids: readonly string[], asOf: number): boolean {
    if (asOf < this.#cut) return true
    const wanted = new Set(ids)
    const partitions = new Set(ids.map(partitionOf))
    const after = this.#records.filter(({ position }) => position > asOf)
    return after.some(
      ({ ids: changed, drawn, isAll }) =>
        isAll === true ||
        changed.some((id) => wanted.has(id)) ||
        (drawn !== undefined && partitions.has(drawn.seed[0]!) && hasDrawn(drawn, wanted)),
    )
  }

  #dropFirst(): number {
    const { ids, position } = this.#records.shift()!
    this.#ids -= ids.length
    return position
  }
}

/** Whether it is too long ago that something was found, whatever has happened since. */
export function isLongAgo(asOf: number, position: number): boolean {
  return position - asOf > recordsMax
}

function recordOf(position: number, request: ClusterRequest): Noted | undefined {
  switch (request.kind) {
    // A point that is deleted because it has expired was not to be seen before.
    case 'expire':
    case 'barrier':
    case 'audit':
      return undefined
    case 'create':
    case 'drop':
    case 'aliases':
      return { position, ids: [], isAll: true }
    case 'insert': {
      const { points, idSeed } = request
      const ids = points.flatMap(({ id }) => id ?? [])
      if (ids.length === points.length) return { position, ids }
      return { position, ids, drawn: { seed: idSeed, count: points.length } }
    }
    case 'each':
      return { position, ids: request.ids }
    default:
      return { position, ids: [request.id] }
  }
}

function hasDrawn({ seed, count }: NonNullable<Noted['drawn']>, wanted: ReadonlySet<string>): boolean {
  const drawn = idsFromSeed(seed, count, true)
  for (let at = 0; at < drawn.length; at += idBytes) if (wanted.has(idFromBytes(drawn, at))) return true
  return false
}

/** Many times what the log gets while a request is on its way. Nodes that start again read so many records once more. */
export const recordsMax = 1_024

/** Some megabytes. */
const idsMax = 131_072
