import { DatabaseError } from '../../src/base/errors.ts'
import { distanceMetrics, type Metric } from '../../src/base/point.ts'
import type { VectorClient } from '../../src/client/index.ts'
import { payloadOf } from '../support/model-client.ts'
import { type ChangeOptions, changePoints } from './changes.ts'
import { insertAll, newPoints } from './new-points.ts'
import { differenceOf, distance, type Oracle, type OraclePoint } from './oracle.ts'

export interface LoadOptions extends ChangeOptions {
  /** Above this number of points, clients prefer deletes. */
  readonly pointsMax: number
  /** Whether searches are exact scans, which must not miss anything. */
  readonly isExact: boolean
}

/**
 * Clients that insert, delete, read and search, each with one call at a time, until they are stopped or the service is
 * gone. Every answer is checked immediately.
 */
export class Load {
  readonly #options: LoadOptions
  readonly #clients: Promise<void>[]
  readonly faults: string[] = []
  calls = 0
  #isStopping = false

  constructor(clients: readonly VectorClient[], options: LoadOptions) {
    this.#options = options
    this.#clients = clients.map((client) => this.#run(client))
  }

  /** Resolves when every client has ended. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await Promise.all(this.#clients)
  }

  async #run(client: VectorClient): Promise<void> {
    while (!this.#isStopping) {
      try {
        await this.#call(client)
        this.calls += 1
      } catch (error) {
        // The comparison after the restart settles calls that were interrupted.
        if (isGone(error)) return
        // So does it for a change that the service refused while it was busy.
        if (error instanceof DatabaseError && error.reason === 'overloaded') continue
        this.faults.push(error instanceof Error ? error.message : String(error))
        return
      }
    }
  }

  #call(client: VectorClient): Promise<void> {
    const { oracle, random, pointsMax } = this.#options
    const dice = random() * (oracle.live.size > pointsMax ? 0.5 : 1)
    if (dice < 0.2) return this.#delete(client)
    if (dice < 0.3) return this.#get(client)
    if (dice < 0.4) return this.#search(client)
    if (dice < 0.5) return changePoints(client, this.#options, this.#anyId())
    if (dice < 0.6 && this.#options.isExact) return changePoints(client, this.#options, this.#anyId())
    if (dice < 0.85) return this.#insert(client, 1)
    return this.#insert(client, 2 + Math.floor(random() * 30))
  }

  async #insert(client: VectorClient, count: number): Promise<void> {
    const { oracle, random, vector } = this.#options
    const marker = oracle.marker()
    const points = newPoints(marker, count, random, vector)
    oracle.sent(marker, points)
    if (random() < 0.5) oracle.keyed.add(marker)
    const options = oracle.keyed.has(marker) ? { idempotencyKey: marker } : {}
    oracle.stored(marker, await insertAll(client, points, options))
  }

  async #delete(client: VectorClient): Promise<void> {
    const { oracle } = this.#options
    const id = this.#anyId()
    if (id === undefined) return
    oracle.leaving.add(id)
    await client.delete(id)
    oracle.removed(id)
  }

  async #get(client: VectorClient): Promise<void> {
    const { oracle } = this.#options
    const id = this.#anyId()
    if (id === undefined) return
    const expected = oracle.live.get(id)!
    try {
      const { vector, payload } = await client.get(id)
      const difference = differenceOf({ vector, payload: payloadOf(payload) }, expected)
      const isSame = oracle.live.get(id) === expected && !oracle.isUnsure(id)
      if (difference !== undefined && isSame) throw new Error(`get ${id}: ${difference}`)
    } catch (error) {
      const isRemoved = error instanceof DatabaseError && error.reason === 'not_found' && this.#isUnsure(id)
      if (!isRemoved) throw error
    }
  }

  /** Whether a removal has been requested meanwhile. */
  #isUnsure(id: string): boolean {
    const { oracle } = this.#options
    return oracle.isUnsure(id) || oracle.gone.has(id)
  }

  async #search(client: VectorClient): Promise<void> {
    const { oracle, random, vector, isExact } = this.#options
    const query = vector()
    const metric = distanceMetrics[Math.floor(random() * distanceMetrics.length)]!
    const limit = 1 + Math.floor(random() * 20)
    const before = new Map(isExact ? oracle.live : [])
    const goneBefore = oracle.gone.size
    const found = await client.search({ vector: query, metric, limit })
    const returned = found.find((id) => oracle.gone.get(id)! < goneBefore)
    if (returned !== undefined) throw new Error(`a search returned ${returned}, which was deleted before it`)
    if (!isExact) return
    const isStable = (id: string): boolean => oracle.live.get(id) === before.get(id) && !oracle.isUnsure(id)
    // The oracle does not know the position of a point with a pending change.
    if (found.some((id) => before.has(id) && !isStable(id))) return
    const stable = [...before.keys()].filter(isStable)
    const missing = missingFrom(found, stable, { oracle, query, metric, limit })
    if (missing !== undefined) throw new Error(`a ${metric} search for ${limit} did not return ${missing}`)
  }

  /** A live point without a pending deletion. */
  #anyId(): string | undefined {
    const { oracle, random } = this.#options
    const skipped = Math.floor(random() * Math.min(oracle.live.size, 500))
    let at = 0
    for (const id of oracle.live.keys()) {
      if (at >= skipped && !oracle.isUnsure(id)) return id
      at += 1
    }
    return undefined
  }
}

/** A missed point: it was stored during the whole search and is nearer than the last found one. */
function missingFrom(
  found: readonly string[],
  stable: readonly string[],
  search: {
    readonly oracle: Oracle
    readonly query: Float32Array
    readonly metric: Metric
    readonly limit: number
  },
): string | undefined {
  const { oracle, query, metric, limit } = search
  const known = found.map((id) => oracle.live.get(id)).filter((point) => point !== undefined)
  const away = ({ vector }: OraclePoint): number => distance(metric, query, vector)
  const last = found.length < limit ? Number.POSITIVE_INFINITY : Math.max(...known.map(away))
  // The oracle cannot compute the distances of points that it does not know yet.
  if (known.length < found.length && found.length === limit) return undefined
  return stable.find((id) => !found.includes(id) && away(oracle.live.get(id)!) < last * (1 - tolerance))
}

/** The service sums in 32 bits, the oracle in 64. */
export const tolerance = 1e-4

function isGone(error: unknown): boolean {
  if (!(error instanceof DatabaseError)) return false
  if (error.reason === 'not_ready' || error.reason === 'cancelled' || error.reason === 'shutting_down')
    return true
  return error.reason === 'internal' && /RST_STREAM|connection|closed|terminated/i.test(error.message)
}
