import type { HttpClient } from '../../src/client/http-client.ts'
import { manifolds } from '../shared/data/data-set.ts'
import { GaussianRandom } from '../shared/data/gaussian-random.ts'
import { fillManifold } from '../shared/data/manifold.ts'
import { percentile } from '../shared/percentile.ts'

export interface Rate {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly count: number
}

const batchPoints = 100

/** A distinct vector for each row. */
export function vectorOf(row: number, dimension: number): number[] {
  const random = new GaussianRandom(7, row)
  return Array.from({ length: dimension }, () => random.next())
}

function randomPoint(row: number, dimension: number) {
  return pointOf(row, vectorOf(row, dimension))
}

function pointOf(row: number, vector: readonly number[]) {
  return { vector, payload: { contentType: 'Text' as const, content: String(row) } }
}

/** Stores points in batches of 100, through all clients concurrently. The rate counts points. */
export async function ingest(
  clients: readonly HttpClient[],
  points: number,
  dimension: number,
): Promise<Rate> {
  // The points are generated beforehand, so that only storing is measured.
  const batches = Array.from({ length: Math.ceil(points / batchPoints) }, (_, batch) =>
    Array.from({ length: Math.min(batchPoints, points - batch * batchPoints) }, (_, index) =>
      randomPoint(batch * batchPoints + index, dimension),
    ),
  )
  let next = 0
  const rate = await timed(clients, async (client) => {
    const batch = batches[next++]
    if (batch === undefined) return false
    await client.insertBatch(batch)
    return true
  })
  return { ...rate, count: points, perSecond: (rate.perSecond / rate.count) * points }
}

/**
 * Stores many points, generating them as needed. They are on a manifold, as embeddings are: how long a node takes to link
 * points with independent components says nothing about a user's.
 */
export async function fill(client: HttpClient, points: number, dimension: number): Promise<void> {
  const size = 1_000
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < points) {
      const from = next
      next = Math.min(points, from + size)
      const rows = new Float32Array((next - from) * dimension)
      fillManifold({ ...manifolds.manifold, dimension }, from, rows)
      await client.insertBatch(
        Array.from({ length: next - from }, (_, at) =>
          pointOf(from + at, [...rows.subarray(at * dimension, (at + 1) * dimension)]),
        ),
      )
    }
  }
  await Promise.all([worker(), worker()])
}

/** Inserts sequentially, to measure how long a write takes until it is acknowledged. */
export async function acknowledge(client: HttpClient, seconds: number, dimension: number): Promise<Rate> {
  const endMs = performance.now() + seconds * 1000
  let row = 1_000_000
  return await timed([client], async (each) => {
    if (performance.now() > endMs) return false
    await each.insert(randomPoint(row++, dimension))
    return true
  })
}

/** Searches through all clients concurrently. */
export async function search(
  clients: readonly HttpClient[],
  seconds: number,
  dimension: number,
): Promise<Rate> {
  const queries = Array.from({ length: 200 }, (_, index) => vectorOf(2_000_000 + index, dimension))
  const endMs = performance.now() + seconds * 1000
  let next = 0
  return await timed(clients, async (client) => {
    if (performance.now() > endMs) return false
    await client.search({ vector: queries[next++ % queries.length]!, metric: 'Cosine', limit: 10 })
    return true
  })
}

/** Each client performs tasks one after another until none are left. */
async function timed(
  clients: readonly HttpClient[],
  run: (client: HttpClient) => Promise<boolean>,
): Promise<Rate> {
  const tookMs: number[] = []
  const startedMs = performance.now()
  const worker = async (client: HttpClient): Promise<void> => {
    for (;;) {
      const beganMs = performance.now()
      if (!(await run(client))) return
      tookMs.push(performance.now() - beganMs)
    }
  }
  await Promise.all(clients.map(worker))
  const seconds = (performance.now() - startedMs) / 1000
  return {
    perSecond: tookMs.length / seconds,
    p50Ms: percentile(tookMs, 0.5),
    p99Ms: percentile(tookMs, 0.99),
    count: tookMs.length,
  }
}
