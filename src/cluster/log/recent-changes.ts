import { idBytes, idFromBytes } from '../../base/ids.ts'
import { idsFromSeed, partitionOf } from '../../base/partitions.ts'
import type { ClusterRequest } from './request-codec.ts'

/** What one record may have changed. */
interface Noted {
  readonly position: number
  /** Ids given by callers. */
  readonly ids: readonly string[]
  /** Ids that an insert draws from its seed. */
  readonly drawn?: { readonly seed: Uint8Array; readonly count: number }
  /** A change of collections or aliases: any point may be another one now. */
  readonly isAll?: boolean
}

/**
 * The points that the last records of the log are about, including those of other nodes. So every node can tell from
 * the log alone whether something that was found at a position is still valid.
 *
 * What is kept is bounded; what was found before that is no longer valid. These bounds decide what nodes do, so they
 * have to be the same on all nodes, and are not settings.
 */
export class RecentChanges {
  /** The oldest first. */
  readonly #records: Noted[] = []
  #ids = 0
  #since: number
  /** Records up to this position were dropped, because there were too many. */
  #cut = 0

  /** @param since records after this position will be noted */
  constructor(since: number) {
    this.#since = since
  }

  /** Whether the noted records go back to this position. */
  covers(asOf: number): boolean {
    return asOf >= this.#since
  }

  /** Notes a request. To be called for each request of the log, in order. */
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

/** Whether something was found too long ago to be valid, whatever has happened since. */
export function isLongAgo(asOf: number, position: number): boolean {
  return position - asOf > recordsMax
}

function recordOf(position: number, request: ClusterRequest): Noted | undefined {
  switch (request.kind) {
    // A point that is deleted because it has expired was not visible before.
    case 'expire':
    case 'barrier':
    case 'audit':
    case 'digest':
    case 'cut':
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

/** Many times what the log receives while a request is on its way. Nodes that restart read this many records again. */
export const recordsMax = 1_024

/** Some megabytes. */
const idsMax = 131_072
