import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Transport } from './load-plan.ts'
import { type WorkloadName, workloadNames } from './workloads.ts'

export const targetNames = ['echo', 'vicinal', 'chroma'] as const
export type TargetName = (typeof targetNames)[number]

export interface Options {
  readonly targets: readonly TargetName[]
  readonly transports: readonly Transport[]
  readonly workloads: readonly WorkloadName[]
  readonly rows: number
  /** Of each of a workload's two runs. */
  readonly seconds: number
  readonly k: number
  readonly output: string
}

export const usage: string = `npm run bench:service -- [options]

  --targets echo,vicinal         of ${targetNames.join(', ')} (the first two)
  --transports grpc,http         both
  --workloads 'search,insert'    of ${workloadNames.join(', ')} (all)
  --rows 20000                   vectors stored before the load
  --seconds 5                    length of each run; every workload has two
  --quick                        4,000 rows and 1 second: to see that it works, not to quote
  --k 10                         neighbours asked for
  --output FILE                  JSON (bench/results/service-<time>.json)`

/** @throws Error that names what is not known or not sound */
export function readOptions(argv: readonly string[]): Options | 'help' {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      targets: { type: 'string', default: 'echo,vicinal' },
      transports: { type: 'string', default: 'grpc,http' },
      workloads: { type: 'string', default: workloadNames.join(',') },
      rows: { type: 'string' },
      seconds: { type: 'string' },
      k: { type: 'string', default: '10' },
      output: { type: 'string' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const { quick } = values
  const time = new Date().toISOString().slice(0, 19).replaceAll(':', '')
  return {
    targets: choices('targets', values.targets, targetNames),
    transports: choices('transports', values.transports, ['grpc', 'http']),
    workloads: choices('workloads', values.workloads, workloadNames),
    rows: positive('rows', values.rows ?? (quick ? '4000' : '20000')),
    seconds: positive('seconds', values.seconds ?? (quick ? '1' : '5')),
    k: positive('k', values.k),
    output: values.output ?? join(import.meta.dirname, `../results/service-${time}.json`),
  }
}

function choices<Name extends string>(option: string, text: string, names: readonly Name[]): Name[] {
  return text.split(',').map((each) => {
    const name = names.find((known) => known === each.trim())
    if (name === undefined) throw new Error(`--${option}: ${each} is none of ${names.join(', ')}`)
    return name
  })
}

function positive(option: string, text: string): number {
  const value = Number(text)
  if (!(value > 0)) throw new Error(`--${option} is ${text}, it must be a positive number`)
  return value
}
