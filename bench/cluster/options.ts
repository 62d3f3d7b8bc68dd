import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { benchFolder, choices, positiveNumber, wholeNumber } from '../shared/options.ts'

export interface Options {
  readonly points: number
  readonly dimension: number
  /** The length of each run of searches, and of the time before and after each fault. */
  readonly seconds: number
  /** Concurrent requests per node. */
  readonly clients: number
  /** Cores that each node may use; 0 means no quota. */
  readonly quota: number
  readonly rounds: number
  /** The numbers of copies of each point on three nodes; each is measured. */
  readonly replicas: readonly number[]
  /** The number of points that a joining node without data fetches. */
  readonly joinPoints: number
  readonly parts: readonly Part[]
  readonly output: string
}

const partNames = ['throughput', 'faults', 'join'] as const

export type Part = (typeof partNames)[number]

export const usage: string = `npm run bench:cluster -- [options]

  --points 20000 --dimension 128   random vectors
  --seconds 10                     length of each run
  --clients 4                      concurrent requests per node
  --quota 0.4                      share of a core per node; 0: no quota. Needs Linux, root and control groups
  --rounds 3                       rounds; each measures one node, three nodes and each fault. Shows medians
  --replicas 3,2,1                 copies of each point on three nodes; every round measures each number
  --join-points 20000              points that a joining node without data fetches from another
  --parts throughput,faults,join   what to measure
  --quick                          2,000 points, one round of 2 seconds: a smoke test, not to quote
  --output FILE                    JSON (bench/results/cluster-<time>.json)`

/** Parses the command line. @throws Error that names the option and the invalid value */
export function readOptions(argv: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      points: { type: 'string' },
      dimension: { type: 'string', default: '128' },
      seconds: { type: 'string' },
      clients: { type: 'string', default: '4' },
      quota: { type: 'string', default: '0.4' },
      rounds: { type: 'string' },
      replicas: { type: 'string', default: '3,2,1' },
      'join-points': { type: 'string' },
      parts: { type: 'string', default: partNames.join(',') },
      output: { type: 'string' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const { quick } = values
  const time = new Date().toISOString().slice(0, 19).replaceAll(':', '')
  const points = wholeNumber('points', values.points ?? (quick ? '2000' : '20000'))
  return {
    points,
    dimension: wholeNumber('dimension', values.dimension),
    seconds: positiveNumber('seconds', values.seconds ?? (quick ? '2' : '10')),
    clients: wholeNumber('clients', values.clients),
    quota: values.quota === '0' ? 0 : positiveNumber('quota', values.quota),
    rounds: wholeNumber('rounds', values.rounds ?? (quick ? '1' : '3')),
    replicas: values.replicas.split(',').map(copies),
    joinPoints: wholeNumber('join-points', values['join-points'] ?? String(points)),
    parts: choices('parts', values.parts, partNames),
    output: values.output ?? join(benchFolder, 'results', `cluster-${time}.json`),
  }
}

function copies(text: string): number {
  const count = wholeNumber('replicas', text.trim())
  if (count > 3) throw new Error(`--replicas: ${count} copies do not fit on three nodes`)
  return count
}
