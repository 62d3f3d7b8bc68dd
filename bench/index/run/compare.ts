import type { DataSet } from '../../shared/data/data-set.ts'
import { GroundTruth } from '../../shared/data/ground-truth.ts'
import type { Description } from '../contenders/contender.ts'
import type { Options } from '../options.ts'
import { type Build, prepareContender, type Ready } from './build.ts'
import {
  type Measured,
  type MeasureOptions,
  measure,
  recallTargets,
  settingsAroundTargets,
  sweep,
} from './measure.ts'
import { speedAtRecall } from './speed-at-recall.ts'

/** All measurements on one data set. */
export interface SetResult {
  readonly set: Pick<DataSet, 'name' | 'description' | 'dimension' | 'count' | 'queryCount'>
  readonly contenders: readonly ContenderResult[]
}

export interface ContenderResult {
  readonly name: string
  readonly description?: Description
  readonly builds: readonly Build[]
  readonly reused: boolean
  /** The time of one query on an almost empty index, in seconds: the cost of calling the library. */
  readonly callCostSeconds?: number
  readonly searches: readonly SearchResult[]
  /** The reason why some or all figures are missing. */
  readonly fault?: string
}

export interface SearchResult {
  readonly threads: number
  /** One pass over all settings. Recall is the same in every round, but these times are rough. */
  readonly sweep: readonly Measured[]
  readonly rounds: readonly RoundResult[]
}

export interface RoundResult {
  readonly samples: readonly Measured[]
  /** Queries per second at each of `recallTargets`; null if the target was not reached. */
  readonly speeds: readonly (number | null)[]
}

/**
 * Builds the contenders one after another, then measures them in rounds. Other load on the machine thus affects all of
 * them equally. Each round starts with another contender.
 */
export async function compareOn(set: DataSet, options: Options): Promise<SetResult> {
  const truth = await GroundTruth.of(set, 'Euclidean')
  const runs = options.contenders.map((name) => new ContenderRun(name, set, truth, options))
  try {
    for (const run of runs) await run.guard(() => run.prepare())
    for (let round = 0; round < options.rounds; round += 1) {
      console.error(`  round ${round + 1} of ${options.rounds}`)
      const first = round % runs.length
      for (const run of [...runs.slice(first), ...runs.slice(0, first)]) await run.guard(() => run.round())
    }
  } finally {
    for (const run of runs) await run.guard(() => run.close())
  }
  const { name, description, dimension, count, queryCount } = set
  return {
    set: { name, description, dimension, count, queryCount },
    contenders: runs.map((run) => run.result()),
  }
}

interface Search extends MeasureOptions {
  readonly sweep: readonly Measured[]
  readonly efs: readonly number[]
  readonly rounds: RoundResult[]
}

/** One contender on one data set, from the build to its result. A fault ends only this contender. */
class ContenderRun {
  readonly #name: string
  readonly #set: DataSet
  readonly #truth: GroundTruth
  readonly #options: Options
  readonly #searches: Search[] = []
  #ready: Ready | undefined
  #callCostSeconds: number | undefined
  #fault: string | undefined

  constructor(name: string, set: DataSet, truth: GroundTruth, options: Options) {
    this.#name = name
    this.#set = set
    this.#truth = truth
    this.#options = options
  }

  async guard(work: () => Promise<void>): Promise<void> {
    if (this.#fault !== undefined) return
    try {
      await work()
    } catch (error) {
      this.#fault = error instanceof Error ? error.message : String(error)
      this.#ready?.client.kill()
      console.error(`  ${this.#fault}`)
    }
  }

  async prepare(): Promise<void> {
    const { k, threads, minSeconds } = this.#options
    this.#ready = await prepareContender(this.#name, this.#set, 'Euclidean', this.#options)
    const { client, builds, reused } = this.#ready
    const seconds = builds.map((build) => `${build.seconds.toFixed(1)} s on ${build.threads}`).join(', ')
    console.error(`  ${this.#name}: ${reused ? 'built earlier' : 'built'} in ${seconds}`)
    for (const count of threads) {
      const options = { k, threads: count, minSeconds }
      const swept = await sweep(client, this.#truth, options)
      this.#searches.push({ ...options, sweep: swept, efs: settingsAroundTargets(swept), rounds: [] })
    }
    this.#callCostSeconds = await client.ask({ kind: 'callCost', k })
  }

  async round(): Promise<void> {
    const { client } = this.#ready!
    for (const search of this.#searches) {
      const samples: Measured[] = []
      for (const ef of search.efs) samples.push(await measure(client, this.#truth, ef, search))
      const speeds = recallTargets.map((target) => speedAtRecall(samples, target) ?? null)
      search.rounds.push({ samples, speeds })
    }
  }

  async close(): Promise<void> {
    await this.#ready?.client.close()
  }

  result(): ContenderResult {
    const { description, builds, reused } = this.#ready ?? { builds: [], reused: false }
    return {
      name: this.#name,
      ...(description && { description }),
      builds,
      reused,
      ...(this.#callCostSeconds !== undefined && { callCostSeconds: this.#callCostSeconds }),
      searches: this.#searches.map(({ threads, sweep, rounds }) => ({ threads, sweep, rounds })),
      ...(this.#fault !== undefined && { fault: this.#fault }),
    }
  }
}
