import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { shown } from '../../shared/table.ts'
import { applyLoad } from '../load/apply-load.ts'
import type { LoadData } from '../load/load-data.ts'
import type { Transport } from '../load/load-plan.ts'
import { isReading, type WorkloadName, workloadOf } from '../load/workloads.ts'
import type { Options } from '../options.ts'
import type { Target } from '../targets/target.ts'
import { startVicinal } from '../targets/vicinal.ts'
import { rateOf, recallOf } from './measure.ts'

export const coresTitle = 'Cores: the service with each number of threads'

export const coresHeadings: readonly string[] = [
  'THREADS',
  'workload',
  'transport',
  'connections',
  'items/s',
  'p50, ms',
  'p99, ms',
  'cores',
  'first thread',
  'busiest other',
  'us of all cores an item',
  'RSS, MB',
  'refused, failed',
]

/**
 * Measures the service with each number of threads over the same stored points. Every connection has one request at a
 * time. The points are stored once; each service starts from a copy of the folder, so that its inserts are not there
 * for the next.
 */
export async function coresCurve(
  data: LoadData,
  options: Options,
  onRow: (row: readonly string[]) => void,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'vicinal-bench-'))
  try {
    const stored = join(folder, 'stored')
    await fill(stored, data, options)
    for (const threads of options.threads) {
      const copy = join(folder, String(threads))
      await cp(stored, copy, { recursive: true })
      await measureWith(threads, copy, data, options, onRow)
      await rm(copy, { recursive: true })
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function measureWith(
  threads: number,
  folder: string,
  data: LoadData,
  options: Options,
  onRow: (row: readonly string[]) => void,
): Promise<void> {
  await using target = await startVicinal({ folder, threads })
  await target.settled()
  await growThreads(target, data, options)
  for (const step of stepsOf(options)) {
    onRow([String(threads), ...(await rowOf(target, data, options, step))])
    if (!isReading(step.workload)) await target.settled()
  }
}

/** The service starts its threads under load. A long load also compiles the code of each. */
async function growThreads(target: Target, data: LoadData, options: Options): Promise<void> {
  for (const transport of options.transports) {
    const step = { workload: 'search', transport, connections: Math.max(64, ...options.connections) } as const
    await rowOf(target, data, { ...options, seconds: growthSeconds }, step)
  }
}

const growthSeconds = 3

async function fill(folder: string, data: LoadData, options: Options): Promise<void> {
  await using target = await startVicinal({ folder, threads: options.threads.at(-1)! })
  const filled = await target.fill(data.rows)
  const recall = await recallOf(target, data, options)
  console.error(
    `  ${data.rows.length} points stored in ${shown(filled?.seconds, 1)} s, in the index after ${shown(filled?.indexedSeconds, 1)} s, recall ${shown(recall, 4)}`,
  )
}

interface Step {
  readonly workload: WorkloadName
  readonly transport: Transport
  readonly connections: number
}

/** What reads comes before what changes the stored points. */
function stepsOf({ workloads, transports, connections }: Options): Step[] {
  return workloads.flatMap((workload) =>
    transports.flatMap((transport) =>
      (workload === 'search' ? connections : [usualConnections]).map((count) => ({
        workload,
        transport,
        connections: count,
      })),
    ),
  )
}

const usualConnections = 32

async function rowOf(
  target: Target,
  data: LoadData,
  options: Options,
  { workload: name, transport, connections }: Step,
): Promise<string[]> {
  const workload = workloadOf(name, data, options)
  const plan = {
    transport,
    port: target.ports[transport]!,
    requests: target.requests(workload, transport),
    seconds: options.seconds,
    warmupSeconds: options.warmup,
    rate: undefined,
    connections,
    inFlight: connections,
  }
  const { result, usage } = await applyLoad(plan, target.pid, Math.min(options.generators, connections))
  const rate = rateOf(result) * workload.size
  return [
    name,
    transport,
    String(connections),
    shown(rate),
    shown(result.milliseconds['50'], 2),
    shown(result.milliseconds['99'], 2),
    shown(usage?.processors, 2),
    shown(usage?.mainThread, 2),
    shown(usage?.otherThreads[0], 2),
    shown(usage && (usage.processors / rate) * 1e6, 1),
    shown(usage && usage.rssBytes / 1e6),
    result.refused + result.failed === 0 ? '-' : `${result.refused}, ${result.failed}`,
  ]
}
