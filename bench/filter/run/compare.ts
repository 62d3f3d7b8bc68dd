import { availableParallelism } from 'node:os'
import { type Build, prepareContender, type Ready } from '../../index/run/build.ts'
import type { FilteredFound, QueryRange } from '../../index/run/messages.ts'
import type { DataSet } from '../../shared/data/data-set.ts'
import { casesOf, type FilterCase } from '../data/cases.ts'
import { type ExactAnswers, exactAnswers } from '../data/exact-answers.ts'
import { attributesOf } from '../data/make-attributes.ts'
import type { Options } from '../options.ts'
import { type WayName, ways } from '../ways.ts'
import type { Cell, WayResult } from './cell.ts'
import { practiceOf, type Setting, search, settingFor, type Task, wayResult } from './measure.ts'

/** All measurements on one data set. */
export interface SetResult {
  readonly set: Pick<DataSet, 'name' | 'description' | 'dimension' | 'count' | 'queryCount'>
  readonly contenders: readonly { readonly name: string; readonly builds: readonly Build[] }[]
  readonly cells: readonly Cell[]
  /** The ways that could not be measured, with the reason. */
  readonly faults: readonly { readonly way: WayName; readonly fault: string }[]
}

/**
 * Builds the contenders one after another. Then all ways take turns in each cell, and each cell starts with another
 * way.
 */
export async function compareOn(set: DataSet, options: Options): Promise<SetResult> {
  const attributes = await attributesOf(set, options.shares, options.wordnet)
  const cases = casesOf(set, attributes, options)
  console.error(`  exact answers to ${cases.length} cases`)
  const exact = await exactAnswers(set, attributes.path, cases)
  const run = new SetRun(set, options)
  try {
    await run.prepare(attributes.path)
    const cells: Cell[] = []
    for (const [at, each] of cases.entries()) {
      console.error(`  ${at + 1} of ${cases.length}: ${each.name}`)
      for (const k of options.ks) cells.push(await run.cell(each, exact[at]!, k, cells.length))
    }
    return { set: run.described, cells, ...run.told }
  } finally {
    await run.close()
  }
}

/** The contenders of a data set during the measurement. A contender that fails is skipped from then on. */
class SetRun {
  readonly #set: DataSet
  readonly #options: Options
  /** The timed queries. The queries after them are for practice. */
  readonly #queries: QueryRange
  readonly #practice: QueryRange
  readonly #ready = new Map<string, Ready>()
  readonly #faults = new Map<WayName, string>()

  constructor(set: DataSet, options: Options) {
    this.#set = set
    this.#options = options
    this.#practice = practiceOf(set, options.queries)
    this.#queries = { from: 0, to: this.#practice.from }
  }

  /** The data set as shown in the report, with the number of timed queries. */
  get described(): SetResult['set'] {
    const { name, description, dimension, count } = this.#set
    return { name, description, dimension, count, queryCount: this.#queries.to }
  }

  get told(): Pick<SetResult, 'contenders' | 'faults'> {
    return {
      contenders: [...this.#ready].map(([name, { builds }]) => ({ name, builds })),
      faults: [...this.#faults].map(([way, fault]) => ({ way, fault })),
    }
  }

  async prepare(attributesPath: string): Promise<void> {
    const options = { ...this.#options, buildThreads: [availableParallelism()], attributesPath }
    for (const name of new Set(this.#options.ways.map((way) => ways[way].contender))) {
      try {
        const ready = await prepareContender(name, this.#set, 'Euclidean', options)
        this.#ready.set(name, ready)
        const seconds = ready.builds.at(-1)!.seconds.toFixed(1)
        console.error(`  ${name}: ${ready.reused ? 'built earlier' : 'built'} in ${seconds} s`)
      } catch (error) {
        for (const way of this.#options.ways) if (ways[way].contender === name) this.#fail(way, error)
      }
    }
  }

  /** @param turn determines which way starts */
  async cell(of: FilterCase, exact: ExactAnswers, k: number, turn: number): Promise<Cell> {
    const results: WayResult[] = []
    for (const way of rotated(this.#options.ways, turn)) {
      const ready = this.#ready.get(ways[way].contender)
      if (ready === undefined || this.#faults.has(way)) continue
      try {
        results.push(
          await this.#measure({
            way,
            client: ready.client,
            filters: of.filters,
            exact,
            k,
            queries: this.#queries,
            practice: this.#practice,
          }),
        )
      } catch (error) {
        this.#fail(way, error)
      }
    }
    const matched = exact.matching.subarray(0, this.#queries.to)
    const matching = matched.reduce((sum, each) => sum + each, 0) / matched.length
    const { name, kind, relation, share: wantedShare } = of
    return { name, kind, relation, k, wantedShare, share: matching / this.#set.count, results }
  }

  async #measure(task: Task): Promise<WayResult> {
    const setting: Setting = await settingFor(task, this.#options)
    const rounds: FilteredFound[] = []
    for (let round = 0; round < this.#options.rounds; round += 1) {
      rounds.push(await search(task, setting, this.#options))
    }
    return wayResult(task, setting, rounds)
  }

  #fail(way: WayName, error: unknown): void {
    const fault = error instanceof Error ? error.message : String(error)
    this.#faults.set(way, fault)
    console.error(`  ${way}: ${fault}`)
  }

  async close(): Promise<void> {
    for (const { client } of this.#ready.values()) {
      // If its process has ended, that is already recorded as a fault.
      await client.close().catch(() => client.kill())
    }
  }
}

function rotated<Each>(all: readonly Each[], by: number): Each[] {
  const first = by % all.length
  return [...all.slice(first), ...all.slice(0, first)]
}
