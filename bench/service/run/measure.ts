import { applyLoad, type LoadMeasured } from '../load/apply-load.ts'
import type { LoadData } from '../load/load-data.ts'
import type { LoadPlan, LoadResult, Transport } from '../load/load-plan.ts'
import type { Usage } from '../load/usage.ts'
import { type Pressure, pressures, type Workload } from '../load/workloads.ts'
import type { Target } from '../targets/target.ts'

export interface Measurement extends Pressure {
  readonly target: string
  readonly transport: Transport
  readonly workload: string
  readonly round: number
  /** Queries and points per second at the best pressure. Each item of a batch counts. */
  readonly itemsPerSecond: number
  readonly full: LoadResult
  /** The server's resource usage at the same time. */
  readonly usage: Usage | undefined
  /** The result at half that rate, with times counted from when a request was due; undefined if not measured. */
  readonly half: LoadResult | undefined
  /** Items per second with other numbers of connections and concurrent requests. */
  readonly others: readonly (Pressure & { readonly itemsPerSecond: number })[]
}

export interface Asked {
  readonly workload: Workload
  readonly transport: Transport
  readonly seconds: number
  readonly round: number
  /** The best pressure of an earlier round; undefined to try all. */
  readonly pressure: Pressure | undefined
}

/** Applies load without counting it, until the server's code is compiled and its memory has grown. */
export async function warmUp(
  target: Target,
  asked: Pick<Asked, 'workload' | 'transport' | 'seconds'>,
): Promise<void> {
  const pressure = pressures(asked.workload, asked.transport).at(-1)!
  await applyLoad({ ...planOf(target, asked), warmupSeconds: 0, ...pressure }, target.pid)
}

/** A plan that sends requests as fast as answers arrive. */
function planOf(
  target: Target,
  { workload, transport, seconds }: Pick<Asked, 'workload' | 'transport' | 'seconds'>,
): Pick<LoadPlan, 'transport' | 'port' | 'requests' | 'seconds' | 'rate'> {
  const requests = target.requests(workload, transport)
  return { transport, port: target.ports[transport]!, requests, seconds, rate: undefined }
}

/** Measures the highest rate, then the times at half of it. */
export async function measure(target: Target, asked: Asked): Promise<Measurement> {
  const { workload, transport, seconds, round } = asked
  const plan = { ...planOf(target, asked), warmupSeconds: Math.min(0.3, seconds / 2) }
  const tried: (LoadMeasured & { readonly pressure: Pressure })[] = []
  for (const pressure of asked.pressure ? [asked.pressure] : pressures(workload, transport)) {
    tried.push({ pressure, ...(await applyLoad({ ...plan, ...pressure }, target.pid)) })
  }
  const best = tried.reduce((most, each) => (rateOf(each.result) > rateOf(most.result) ? each : most))
  const rate = rateOf(best.result)
  return {
    target: target.name,
    transport,
    workload: workload.name,
    round,
    ...best.pressure,
    itemsPerSecond: rate * workload.size,
    full: best.result,
    usage: best.usage,
    half: hasHalf(asked, target)
      ? await atHalf({ ...plan, ...best.pressure, rate: rate / 2 }, target.pid)
      : undefined,
    others: tried
      .filter((each) => each !== best)
      .map(({ pressure, result }) => ({ ...pressure, itemsPerSecond: rateOf(result) * workload.size })),
  }
}

/** Whether to measure at half load. For the echo, only single searches are compared at half load. */
function hasHalf({ workload }: Asked, target: Target): boolean {
  return target.name !== 'echo' || workload.name === 'search'
}

async function atHalf(
  plan: LoadPlan & { readonly rate: number },
  pid: number,
): Promise<LoadResult | undefined> {
  if (plan.rate * plan.seconds < 1) return undefined
  // With many connections, requests wait only for the server, not for a connection.
  const connections = plan.transport === 'http' ? httpConnectionsMin : plan.connections
  return (await applyLoad({ ...plan, connections, warmupSeconds: 0 }, pid)).result
}

const httpConnectionsMin = 64

export function rateOf({ answered, seconds }: LoadResult): number {
  return answered / seconds
}

/** The share of the true nearest points that single searches find. */
export async function recallOf(
  target: Target,
  { queries, truth }: LoadData,
  asked: { readonly k: number; readonly ef: number },
): Promise<number | undefined> {
  const found = new Uint32Array(queries.length * asked.k).fill(noRow)
  for (const [place, query] of queries.entries()) {
    const nearest = await target.nearest(query, asked)
    if (nearest === undefined) return undefined
    found.set(
      nearest.map((row) => (row < 0 ? noRow : row)),
      place * asked.k,
    )
  }
  return truth.recall(found, asked.k)
}

const noRow = 0xffffffff
