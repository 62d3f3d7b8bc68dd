import { fork } from 'node:child_process'
import { join } from 'node:path'
import { nextMessage } from '../../shared/next-message.ts'
import { Latencies } from './latencies.ts'
import type { LoadCounted, LoadPlan, LoadResult } from './load-plan.ts'
import { type Usage, usageBetween, usageOf } from './usage.ts'

export interface LoadMeasured {
  readonly result: LoadResult
  /** The server's resource usage while the load was counted; undefined without /proc. */
  readonly usage: Usage | undefined
}

/**
 * Generates a load from other processes, and measures the server's process at the same time.
 *
 * @param generators the number of processes; each opens its share of the connections, of which there are at least so many
 */
export async function applyLoad(plan: LoadPlan, pid: number, generators = 1): Promise<LoadMeasured> {
  const children = Array.from({ length: generators }, () =>
    fork(join(import.meta.dirname, 'load-generator.ts'), { serialization: 'advanced' }),
  )
  const counting = children.map((child) => nextMessage<'counting'>(child))
  for (const [place, child] of children.entries()) child.send(shareOf(plan, place, generators))
  await Promise.all(counting)
  const before = usageOf(pid)
  const counted = await Promise.all(children.map((child) => nextMessage<LoadCounted>(child)))
  return { result: sumOf(counted), usage: usageBetween(before, usageOf(pid)) }
}

/** The part of a load that one of several generators applies. Each begins with another request. */
function shareOf(plan: LoadPlan, place: number, generators: number): LoadPlan {
  const { requests, connections, inFlight, rate } = plan
  const shared = (whole: number): number => Math.floor((whole + place) / generators)
  const first = Math.floor((requests.length * place) / generators)
  return {
    ...plan,
    requests: [...requests.slice(first), ...requests.slice(0, first)],
    connections: shared(connections),
    inFlight: shared(inFlight),
    rate: rate === undefined ? undefined : rate / generators,
  }
}

function sumOf(counted: readonly LoadCounted[]): LoadResult {
  const latencies = new Latencies()
  for (const { buckets } of counted) latencies.add(new Latencies(buckets))
  const sum = (of: (each: LoadCounted) => number): number =>
    counted.reduce((total, each) => total + of(each), 0)
  return {
    answered: latencies.count,
    refused: sum(({ refused }) => refused),
    failed: sum(({ failed }) => failed),
    seconds: Math.max(...counted.map(({ seconds }) => seconds)),
    milliseconds: latencies.percentiles(),
    millisecondsMax: latencies.max,
  }
}
