import { DatabaseError } from '../../src/base/errors.ts'
import { distanceMetrics } from '../../src/base/point.ts'
import type { VectorClient } from '../../src/client/index.ts'
import { payloadOf } from '../support/model-client.ts'
import { settleChanges } from './changes.ts'
import { tolerance } from './load.ts'
import { insertAll } from './new-points.ts'
import { differenceOf, distance, insertOf, type Oracle, type OraclePoint, originOf } from './oracle.ts'
import type { Clients } from './server.ts'

export interface VerifyOptions {
  readonly oracle: Oracle
  readonly random: () => number
  readonly vector: () => Float32Array
  readonly isExact: boolean
  /** Maximum number of points and removals read one by one; of more, a random sample of this size. */
  readonly readsMax: number
  /** Whether inserts with a key are repeated; false if the service accepts no writes or is held at one. */
  readonly repeats?: boolean
}

/** What was verified. */
export interface Verified {
  readonly points: number
  readonly removals: number
  /** Recall of searches through the index. */
  readonly recall: number | undefined
}

/**
 * Compares a restarted service with the oracle and settles unanswered requests.
 *
 * @throws Error that names what is lost, wrong, partial or must not exist
 */
export async function verify(clients: Clients, options: VerifyOptions): Promise<Verified> {
  const { oracle, random, readsMax } = options
  const found = await everyId(clients.http, options)
  await settleChanges(clients.grpc, oracle, found)
  for (const id of oracle.live.keys()) {
    if (found.has(id)) continue
    if (!oracle.leaving.has(id)) throw new Error(`the acknowledged point ${id} is lost`)
    oracle.forget(id)
  }
  // A removal that did not happen counts as never requested.
  oracle.leaving.clear()
  const unknown = [...found].filter((id) => !oracle.live.has(id))
  const revived = unknown.find((id) => oracle.gone.has(id))
  if (revived !== undefined) throw new Error(`the point ${revived} was deleted and is back`)
  const lost = new Map([...oracle.unanswered].filter(([marker]) => oracle.keyed.has(marker)))
  const adopted = await settleInserts(clients.grpc, oracle, unknown)
  if (options.repeats) await repeatInserts(clients, oracle, lost, adopted)
  oracle.keyed.clear()

  const points = sample([...oracle.live.keys()], readsMax, random)
  await inTurn(points, (id, index) => checkPoint(index % 2 === 0 ? clients.grpc : clients.http, oracle, id))
  const removals = sample([...oracle.gone.keys()], readsMax, random)
  await inTurn(removals, (id, index) => checkGone(index % 2 === 0 ? clients.grpc : clients.http, id))
  await checkFilters(clients, options)
  const recall = await checkSearches(clients, options)
  return { points: points.length, removals: removals.length, recall }
}

/** All ids, from a search with a limit above the number of points. */
async function everyId(client: VectorClient, { oracle, vector }: VerifyOptions): Promise<Set<string>> {
  const limit = oracle.live.size + [...oracle.unanswered.values()].flat().length + 1
  const ids = await client.search({ vector: vector(), metric: 'Euclidean', limit })
  const found = new Set(ids)
  if (found.size !== ids.length) throw new Error('a search returned a point twice')
  return found
}

/** Assigns unacknowledged points to their inserts. Each insert must be stored completely and exactly, or not at all. */
async function settleInserts(
  client: VectorClient,
  oracle: Oracle,
  unknown: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const byMarker = new Map<string, (string | undefined)[]>()
  const adopted = new Map<string, readonly string[]>()
  for (const id of unknown) {
    const { vector, payload: stored } = await client.get(id)
    const point = { vector, payload: payloadOf(stored) }
    const origin = originOf(point.payload.content)
    const expected = origin && oracle.unanswered.get(origin.marker)?.[origin.index]
    if (origin === undefined || expected === undefined) throw new Error(`the point ${id} was never stored`)
    const difference = differenceOf(point, expected)
    if (difference !== undefined) throw new Error(`the unacknowledged point ${id} has ${difference}`)
    const ids = byMarker.get(origin.marker) ?? []
    byMarker.set(origin.marker, ids)
    if (ids[origin.index] !== undefined) throw new Error(`${origin.marker}/${origin.index} is stored twice`)
    ids[origin.index] = id
  }
  for (const [marker, ids] of byMarker) {
    const stored = ids.filter((id) => id !== undefined)
    const expected = oracle.unanswered.get(marker)!.length
    if (stored.length !== expected)
      throw new Error(`${stored.length} of the ${expected} points of a batch are stored`)
    oracle.adopt(marker, stored)
    adopted.set(marker, stored)
  }
  // Points that are missing now must not appear later.
  oracle.unanswered.clear()
  return adopted
}

/**
 * Repeats the inserts with a key. Unanswered ones are stored now if they were not before. All others return their ids,
 * including those of deleted points.
 */
async function repeatInserts(
  { grpc, http }: Clients,
  oracle: Oracle,
  lost: ReadonlyMap<string, readonly OraclePoint[]>,
  adopted: ReadonlyMap<string, readonly string[]>,
): Promise<void> {
  for (const [marker, points] of lost) {
    const ids = await insertAll(http, points, { idempotencyKey: marker })
    const before = adopted.get(marker)
    if (before !== undefined) checkSame(marker, ids, before)
    else {
      oracle.sent(marker, points)
      oracle.adopt(marker, ids)
    }
    checkSame(marker, await insertAll(grpc, points, { idempotencyKey: marker }), ids)
  }
  for (const [marker, { points, ids }] of oracle.answered) {
    checkSame(marker, await insertAll(grpc, points, { idempotencyKey: marker }), ids)
  }
}

function checkSame(marker: string, ids: readonly string[], before: readonly string[]): void {
  if (ids.join() !== before.join())
    throw new Error(`the insert ${marker} was repeated under its key and has other ids`)
}

async function checkPoint(client: VectorClient, oracle: Oracle, id: string): Promise<void> {
  const { vector, payload, version } = await client.get(id, { version: true })
  oracle.sawVersion(id, version!)
  const difference = differenceOf({ vector, payload: payloadOf(payload) }, oracle.live.get(id)!)
  if (difference !== undefined) throw new Error(`the acknowledged point ${id} has ${difference}`)
}

async function checkGone(client: VectorClient, id: string): Promise<void> {
  try {
    await client.get(id)
  } catch (error) {
    if (error instanceof DatabaseError && error.reason === 'not_found') return
    throw error
  }
  throw new Error(`the deleted point ${id} can be read`)
}

/** Checks that filters find exactly the points of some inserts. */
async function checkFilters(clients: Clients, { oracle, random, vector }: VerifyOptions): Promise<void> {
  const inserts = new Set(sample([...oracle.live.values()], 6, random).map(insertOf))
  for (const insert of inserts) {
    const expected = [...oracle.live]
      .flatMap(([id, point]) => (insertOf(point) === insert ? [id] : []))
      .sort()
    const filter = { insert }
    const found = await clients.grpc.search({
      vector: vector(),
      metric: 'Cosine',
      limit: expected.length + 1,
      filter,
    })
    if ([...found].sort().join() !== expected.join())
      throw new Error(`a filter finds ${found.length} points of ${insert}, which has ${expected.length}`)
    const count = await clients.http.count(filter)
    if (count !== expected.length)
      throw new Error(`${insert} has ${expected.length} points, but a count returns ${count}`)
  }
}

/** @returns the recall if searches are not exact */
async function checkSearches(clients: Clients, options: VerifyOptions): Promise<number | undefined> {
  const { oracle, random, vector, isExact } = options
  let hits = 0
  let wanted = 0
  for (let query = 0; query < (isExact ? 12 : 40); query += 1) {
    const metric = isExact
      ? distanceMetrics[query % distanceMetrics.length]!
      : query % 2 === 0
        ? 'Euclidean'
        : 'Cosine'
    const limit = isExact ? 1 + Math.floor(random() * 50) : 10
    const target = vector()
    const client = query % 2 === 0 ? clients.http : clients.grpc
    const found = await client.search({ vector: target, metric, limit })
    const expected = oracle.nearest(target, metric, limit)
    const away = found.map((id) => {
      const point = oracle.live.get(id)
      if (point === undefined) throw new Error(`a search returned ${id}, which is not stored`)
      return distance(metric, target, point.vector)
    })
    if (found.length !== expected.length) throw new Error(`${found.length} results, not ${expected.length}`)
    const isHit = (each: number, at: number): boolean => each <= at * (1 + tolerance) + 1e-6
    if (isExact && !away.every((each, index) => isHit(each, expected[index]!))) {
      throw new Error(`a ${metric} search for ${limit} differs from an exact scan`)
    }
    hits += away.filter((each) => isHit(each, expected.at(-1)!)).length
    wanted += expected.length
  }
  return isExact || wanted === 0 ? undefined : hits / wanted
}

function sample<Item>(items: readonly Item[], count: number, random: () => number): readonly Item[] {
  if (items.length <= count) return items
  const latest = items.slice(-count / 2)
  return [...latest, ...Array.from({ length: count / 2 }, () => items[Math.floor(random() * items.length)]!)]
}

/** Processes a few items at a time. */
async function inTurn<Item>(
  items: readonly Item[],
  each: (item: Item, index: number) => Promise<void>,
): Promise<void> {
  let next = 0
  const work = async (): Promise<void> => {
    for (let index = next++; index < items.length; index = next++) await each(items[index]!, index)
  }
  await Promise.all(Array.from({ length: 8 }, work))
}
