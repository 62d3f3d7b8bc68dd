/** What a request of a workload asks for. */
export interface Workload {
  readonly name: string
  readonly kind: 'search' | 'insert'
  /** Queries or points in a request; 1 is the operation for a single one. */
  readonly size: number
  /** Of ten requests, so many insert a point instead. */
  readonly inserts?: number
  /** Requests under way where no rate is set: enough to keep any server busy. */
  readonly concurrency: number
  readonly vectors: readonly Float32Array[]
  readonly k: number
}

export const workloadNames = [
  'search',
  'search batch 10',
  'search batch 100',
  'search batch 1000',
  'mixed 90/10',
  'insert',
  'insert batch 1000',
] as const
export type WorkloadName = (typeof workloadNames)[number]

/** @param vectors to search with, and to insert */
export function workloadOf(name: WorkloadName, vectors: readonly Float32Array[], k: number): Workload {
  const size = Number(/batch (\d+)$/.exec(name)?.[1] ?? 1)
  if (name === 'mixed 90/10') {
    return { name, kind: 'search', size: 1, inserts: 1, concurrency: 64, vectors, k }
  }
  const kind = name.startsWith('search') ? 'search' : 'insert'
  return { name, kind, size, concurrency: Math.max(2, Math.floor(64 / size)), vectors, k }
}

/** The vectors of each of the workload's requests, and whether it inserts. */
export function requestsOf({ kind, size, inserts = 0, vectors }: Workload): Asked[] {
  const count = Math.max(2, Math.min(200, Math.floor(2000 / size)))
  return Array.from({ length: count }, (_, number) => ({
    isInsert: kind === 'insert' || number % 10 < inserts,
    vectors: Array.from({ length: size }, (_, at) => vectors[(number * size + at) % vectors.length]!),
  }))
}

export interface Asked {
  readonly isInsert: boolean
  readonly vectors: readonly Float32Array[]
}
