import { median, medianOfKnown } from '../../shared/median.ts'
import { atLeast, atMost, milliseconds, share, times, type Verdict } from '../../shared/verdict.ts'
import type { Transport } from '../load/load-plan.ts'
import type { WorkloadName } from '../load/workloads.ts'
import { type Disturbed, slowdown } from '../run/disturbed.ts'
import type { Measurement } from '../run/measure.ts'
import type { SetResult } from '../run/set-result.ts'

/** The targets of the service. Every figure is the median over the rounds of the figures within each round. */
export function verdictsOf(result: SetResult): Verdict[] {
  const { measurements, disturbed, indexRates, fills, tools } = result
  const rounds = [...new Set(measurements.map(({ round }) => round))]
  const inRounds = (figure: (round: number) => number | undefined): number | undefined =>
    medianOfKnown(rounds, figure)
  const itemsOf = (target: string, transport: Transport, workload: WorkloadName, round: number) =>
    find(measurements, target, transport, workload, round)?.itemsPerSecond
  const index = (round: number): number | undefined =>
    indexRates.find((each) => each.round === round)?.allCores

  const ofCeiling = (round: number): number | undefined => {
    const ceilings = [itemsOf('echo', 'grpc', 'search', round), index(round)]
    return ratio(itemsOf('vicinal', 'grpc', 'search', round), least(ceilings))
  }
  const h2load = (target: string): number | undefined =>
    tools.find((each) => each.tool === 'h2load' && each.target === target)?.requestsPerSecond
  const ofCeilingByTool = ratio(h2load('vicinal'), least([h2load('echo'), inRounds(index)]))
  const bestBatch = (round: number): number | undefined => {
    const names = ['search batch 100', 'search batch 1000'] as const
    const rates = names
      .map((name) => itemsOf('vicinal', 'grpc', name, round))
      .filter((each) => each !== undefined)
    return rates.length === 0 ? undefined : ratio(Math.max(...rates), index(round))
  }
  const chroma = (transport: Transport, name: WorkloadName) => (round: number) =>
    ratio(itemsOf('vicinal', transport, name, round), itemsOf('chroma', 'http', name, round))
  const spread = (transport: Transport) => (round: number) => {
    const half = find(measurements, 'vicinal', transport, 'search', round)?.half?.milliseconds
    return ratio(half?.['99'], half?.['50'])
  }
  const slower = (name: WorkloadName, transport: Transport): number | undefined =>
    median(of(disturbed, name, transport).map(slowdown))
  const health = (transport: Transport): number | undefined =>
    median(of(disturbed, 'health at overload', transport).map(({ beside }) => beside.milliseconds['99']))
  const filled = (target: string): number | undefined =>
    fills.find((each) => each.target === target)?.perSecond

  return [
    atLeast(
      'single search over gRPC, as a share of the echo or the index on all cores, whichever is less',
      inRounds(ofCeiling),
      0.7,
      share,
    ),
    atLeast('the same with h2load, which repeats one query', ofCeilingByTool, 0.7, share),
    atLeast('batch search over gRPC, as a share of the index on all cores', inRounds(bestBatch), 0.9, share),
    atLeast('single search over gRPC, times Chroma over HTTP', inRounds(chroma('grpc', 'search')), 20, times),
    atLeast('single search over HTTP, times Chroma over HTTP', inRounds(chroma('http', 'search')), 20, times),
    atLeast(
      'ingest of the whole set in batches of 1,000, times Chroma',
      ratio(filled('vicinal'), filled('chroma')),
      5,
      times,
    ),
    atLeast(
      'batch insert of 1,000 into the filled set over HTTP, times Chroma',
      inRounds(chroma('http', 'insert batch 1000')),
      5,
      times,
    ),
    atMost('p99 over p50 at half load, gRPC', inRounds(spread('grpc')), 5, times),
    atMost('p99 over p50 at half load, HTTP', inRounds(spread('http')), 5, times),
    ...(['grpc', 'http'] as const).flatMap((transport) => [
      atMost(
        `p99 of a search next to a batch of 10,000, over idle, ${transport}`,
        slower('search beside batch 10000', transport),
        5,
        times,
      ),
      atMost(
        `p99 of a search during ingest, over idle, ${transport}`,
        slower('search during ingest', transport),
        3,
        times,
      ),
      atMost(
        `p99 of /health at ten times the load that fits, ${transport}`,
        health(transport),
        50,
        milliseconds,
      ),
    ]),
  ]
}

function find(
  measurements: readonly Measurement[],
  target: string,
  transport: Transport,
  workload: WorkloadName,
  round: number,
): Measurement | undefined {
  // A slow workload is measured only in the first round, which then counts for all rounds.
  const all = measurements.filter(
    (each) => each.target === target && each.transport === transport && each.workload === workload,
  )
  return all.find((each) => each.round === round) ?? all[0]
}

function of(disturbed: readonly Disturbed[], name: WorkloadName, transport: Transport): Disturbed[] {
  return disturbed.filter((each) => each.workload === name && each.transport === transport)
}

function ratio(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? undefined : one / other
}

/** The minimum; undefined if any value is, because that value might be the minimum. */
function least(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((each) => each !== undefined)
  return known.length < values.length ? undefined : Math.min(...known)
}
