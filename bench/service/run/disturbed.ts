import { applyLoad } from '../load/apply-load.ts'
import type { LoadData } from '../load/load-data.ts'
import type { LoadPlan, LoadResult, Transport, WireRequest } from '../load/load-plan.ts'
import type { Usage } from '../load/usage.ts'
import { type WorkloadName, workloadOf } from '../load/workloads.ts'
import type { Options } from '../options.ts'
import type { Target } from '../targets/target.ts'
import { rateOf } from './measure.ts'

/** One steady light load, measured alone and next to a heavy load. */
export interface Disturbed {
  readonly workload: WorkloadName
  /** The transport of the light load. A heavy load comes through gRPC, but an overload comes through this transport. */
  readonly transport: Transport
  readonly round: number
  readonly idle: LoadResult
  readonly beside: LoadResult
  readonly heavy: LoadResult
  /** The server's resource usage during the heavy load. */
  readonly usage: Usage | undefined
}

export const disturbances: readonly WorkloadName[] = [
  'search beside batch 10000',
  'health at overload',
  'search during ingest',
]

interface Loads {
  readonly light: LoadPlan
  readonly heavy: LoadPlan
}

/** @param searchesPerSecond the highest rate of single searches measured through this transport */
export async function disturb(
  target: Target,
  data: LoadData,
  options: Options,
  asked: {
    readonly name: WorkloadName
    readonly transport: Transport
    readonly round: number
    readonly searchesPerSecond: number
  },
): Promise<Disturbed> {
  const { light, heavy } = loadsOf(target, data, options, asked)
  const alone = await applyLoad(light, target.pid)
  const [beside, weight] = await Promise.all([applyLoad(light, target.pid), applyLoad(heavy, target.pid)])
  return {
    workload: asked.name,
    transport: asked.transport,
    round: asked.round,
    idle: alone.result,
    beside: beside.result,
    heavy: weight.result,
    usage: beside.usage,
  }
}

function loadsOf(
  target: Target,
  data: LoadData,
  options: Options,
  { name, transport, searchesPerSecond }: Parameters<typeof disturb>[3],
): Loads {
  const seconds = 2 * options.seconds
  const of = (
    wire: Transport,
    requests: readonly WireRequest[],
    rest: Pick<LoadPlan, 'rate' | 'connections' | 'inFlight' | 'waitingMax'>,
  ): LoadPlan => {
    const port = target.ports[wire]!
    // A short warm-up imitates real probes. They keep connections for days, so the service knows that they send little.
    return { transport: wire, port, requests, seconds, warmupSeconds: 0.3, ...rest }
  }
  const plain = (workload: WorkloadName, wire: Transport, size?: number): readonly WireRequest[] => {
    const made = workloadOf(workload, data, options)
    return target.requests(size === undefined ? made : { ...made, size }, wire)
  }
  const searches = plain('search', transport)
  const rate = Math.min(searchesPerSecondMax, searchesPerSecond / 10)
  const light = of(transport, searches, { rate, connections: transport === 'grpc' ? 1 : 16, inFlight: 16 })
  if (name === 'search beside batch 10000') {
    const batches = plain(name, 'grpc', Math.min(hugeBatch, 10 * data.queries.length))
    return { light, heavy: heavier(of('grpc', batches, { rate: undefined, connections: 1, inFlight: 1 })) }
  }
  if (name === 'search during ingest') {
    const inserts = plain('insert batch 1000', 'grpc')
    return { light, heavy: heavier(of('grpc', inserts, { rate: undefined, connections: 1, inFlight: 2 })) }
  }
  const probe = { path: '/health', method: 'GET', body: new Uint8Array() } as const
  const connections = floodConnections[transport]
  const flood = { rate: overload * searchesPerSecond, connections, inFlight: 0, waitingMax: connections }
  return {
    light: of('http', [probe], { rate: probesPerSecond, connections: 16, inFlight: 16 }),
    heavy: heavier(of(transport, searches, flood)),
  }
}

/** Extends a plan to start before the light load and end after it, because generators do not start simultaneously. */
function heavier(plan: LoadPlan): LoadPlan {
  return { ...plan, warmupSeconds: 0, seconds: plan.seconds + 0.5 }
}

/** Enough for a 99th percentile within a few seconds, and a light load on any machine. */
const searchesPerSecondMax = 200
const probesPerSecond = 50
const hugeBatch = 10_000
const overload = 10
/** A connection carries up to 200 calls over gRPC, and one over HTTP. */
const floodConnections: Readonly<Record<Transport, number>> = { grpc: 40, http: 2000 }

/** The 99th percentile next to the heavy load, divided by that of the light load alone. */
export function slowdown({ idle, beside }: Disturbed): number | undefined {
  const [before, with_] = [idle.milliseconds['99'], beside.milliseconds['99']]
  return before === undefined || with_ === undefined ? undefined : with_ / before
}

/** The rate of the heavy load that was answered, in requests per second. */
export function heavyRate({ heavy }: Disturbed): number {
  return rateOf(heavy)
}
