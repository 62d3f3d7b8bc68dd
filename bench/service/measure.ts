import { type Data, exactNearest } from './data.ts'
import type { LoadResult, Transport } from './load-plan.ts'
import type { Options } from './options.ts'
import { applyLoad, type Target, usageOf } from './target.ts'
import { type Workload, workloadOf } from './workloads.ts'

export interface Measurement {
  readonly target: string
  readonly transport: Transport
  readonly workload: string
  /** Queries and points a second, those of batches counted singly, with as many requests as it takes. */
  readonly itemsPerSecond: number
  /** Processor time of the server, in processors. */
  readonly processors: number | undefined
  readonly rssBytes: number | undefined
  /** At half the rate above, counted from when a request was due. */
  readonly milliseconds: LoadResult['milliseconds']
  readonly failed: number
}

export interface TargetResult {
  readonly target: string
  readonly fillPerSecond: number | undefined
  readonly recall: number | undefined
  readonly measurements: readonly Measurement[]
}

/** Fills a target, then puts each workload on it: as fast as it goes, and at half of that. */
export async function measureTarget(target: Target, data: Data, options: Options): Promise<TargetResult> {
  const seconds = await target.fill(data.rows)
  const recall = await recallOf(target, data, options.k)
  const measurements: Measurement[] = []
  for (const name of options.workloads) {
    const workload = workloadOf(name, data.queries, options.k)
    for (const transport of options.transports) {
      const port = target.ports[transport]
      if (port === undefined) continue
      const measurement = await measure(target, workload, transport, port, options.seconds)
      measurements.push(measurement)
      console.error(
        `  ${target.name} ${transport} ${name}: ${Math.round(measurement.itemsPerSecond)} a second`,
      )
    }
  }
  const fillPerSecond = seconds === 0 ? undefined : data.rows.length / seconds
  return { target: target.name, fillPerSecond, recall, measurements }
}

async function measure(
  target: Target,
  workload: Workload,
  transport: Transport,
  port: number,
  seconds: number,
): Promise<Measurement> {
  const requests = target.requests(workload, transport)
  const plan = { transport, port, requests, concurrency: workload.concurrency }
  await applyLoad({ ...plan, rate: undefined, seconds: Math.min(1, seconds / 2) })
  const before = usageOf(target.pid)
  const full = await applyLoad({ ...plan, rate: undefined, seconds })
  const after = usageOf(target.pid)
  const rate = full.answered / full.seconds
  const half = await applyLoad({ ...plan, rate: rate / 2, seconds })
  return {
    target: target.name,
    transport,
    workload: workload.name,
    itemsPerSecond: rate * workload.size,
    processors: before && after && (after.cpuSeconds - before.cpuSeconds) / full.seconds,
    rssBytes: after?.rssBytes,
    milliseconds: half.milliseconds,
    failed: full.failed + half.failed,
  }
}

/** Share of the true nearest that single searches find. */
async function recallOf(target: Target, { rows, queries }: Data, k: number): Promise<number | undefined> {
  let found = 0
  const some = queries.slice(0, recallQueries)
  for (const query of some) {
    const nearest = await target.nearest(query, k)
    if (nearest === undefined) return undefined
    const truth = new Set(exactNearest(rows, query, k))
    found += nearest.filter((row) => truth.has(row)).length
  }
  return found / (some.length * k)
}

const recallQueries = 100
