import type { LoadData } from './load-data.ts'
import type { Transport } from './load-plan.ts'

/** A kind of request to measure. */
export interface Workload {
  readonly name: WorkloadName
  readonly kind: 'search' | 'insert'
  /** The number of queries or points per request. 1 uses the operation for a single item. */
  readonly size: number
  /** How many of every ten requests insert a point instead. */
  readonly inserts: number
  readonly queries: readonly Float32Array[]
  readonly points: readonly Float32Array[]
  readonly k: number
  readonly ef: number
}

/** The workloads in the order of measurement. Those that change the stored points come last. */
export const workloadNames = [
  'search',
  'search batch 10',
  'search batch 100',
  'search batch 1000',
  'search beside batch 10000',
  'health at overload',
  'mixed 90/10',
  'insert',
  'insert batch 500',
  'insert batch 1000',
  'search during ingest',
] as const
export type WorkloadName = (typeof workloadNames)[number]

/** The workloads that measure one load alone. For the others, disturbed.ts combines a light and a heavy load. */
export const plainWorkloads: readonly WorkloadName[] = [
  'search',
  'search batch 10',
  'search batch 100',
  'search batch 1000',
  'mixed 90/10',
  'insert',
  'insert batch 1000',
]

export function isReading(name: WorkloadName): boolean {
  return name.startsWith('search') && name !== 'search during ingest'
}

/** @param name a name with a size, such as `search batch 100`, or that of a single operation */
export function workloadOf(
  name: WorkloadName,
  { queries, inserts }: LoadData,
  { k, ef }: { readonly k: number; readonly ef: number },
): Workload {
  const size = Number(/batch (\d+)$/.exec(name)?.[1] ?? 1)
  const kind = name.startsWith('insert') ? 'insert' : 'search'
  return { name, kind, size, inserts: name === 'mixed 90/10' ? 1 : 0, queries, points: inserts, k, ef }
}

/** The number of connections, and of concurrent requests over all of them. */
export interface Pressure {
  readonly connections: number
  readonly inFlight: number
}

/**
 * The pressures to try for the highest rate. Single searches are tried with several, because the best one differs
 * between servers. For batches, one pressure is enough work.
 */
export function pressures({ name, size }: Workload, transport: Transport): readonly Pressure[] {
  const of = (connections: number, inFlight: number): Pressure =>
    transport === 'grpc' ? { connections, inFlight } : { connections: inFlight, inFlight }
  if (name === 'search') {
    return transport === 'grpc'
      ? [of(1, 1), of(1, 8), of(1, 64), of(4, 64)]
      : [of(1, 1), of(8, 8), of(64, 64)]
  }
  return [of(1, size === 1 ? 64 : Math.max(2, Math.min(16, Math.floor(400 / size))))]
}

/** For each request of the workload, its vectors and whether it inserts. */
export function requestsOf({ kind, size, inserts, queries, points }: Workload): Asked[] {
  const some = kind === 'insert' ? points : queries
  const count = Math.max(2, Math.ceil(some.length / size))
  return Array.from({ length: count }, (_, number) => {
    const isInsert = kind === 'insert' || number % 10 < inserts
    const from = isInsert ? points : queries
    return {
      isInsert,
      vectors: Array.from({ length: size }, (_, at) => from[(number * size + at) % from.length]!),
    }
  })
}

export interface Asked {
  readonly isInsert: boolean
  readonly vectors: readonly Float32Array[]
}
