import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { distanceMetrics, type Metric } from '../../src/base/point.ts'
import { seededRandom, shuffled } from '../support/random.ts'
import { type CallKind, HardService, shutdownTimeoutMs } from './service.ts'
import { type HardVectors, hardVectors } from './sets.ts'
import { judge, k } from './truth.ts'

export interface BatteryOptions {
  readonly points: number
  /** Number of queries at each moment. If they find too little, ten times as many are asked. */
  readonly queries: number
  /** Dimension of all vectors; undefined: each set's default. */
  readonly dimension?: number | undefined
  readonly rounds: number
  readonly seed: number
  /** Share of the points to delete. */
  readonly share: number
  /** After this time, a call counts as never answered and the set is given up. */
  readonly hangMs: number
  /** A slower call is a fault. */
  readonly slowMs: number
  /** The index must settle within this time. */
  readonly settleMs: number
  /** The process must end within this time after SIGTERM. */
  readonly stopMs: number
  /** Settings of the service; they override those of the battery. */
  readonly env?: Readonly<Record<string, string>>
  /** Whether collections of any size have graphs. Otherwise there are as many points as one needs. */
  readonly hasSmallGraphs?: boolean
}

/** When recall is measured, in this order. */
export const moments = ['loaded', 'settled', 'deleted', 'restarted', 'resettled', 'churned'] as const
export type Moment = (typeof moments)[number]

export interface Row {
  readonly round: number
  readonly moment: Moment
  readonly metric: Metric
  readonly recall: number
  /** Number of answers that are not ordered by (distance, insertion). */
  readonly disordered: number
  /** The multiplier of the requested ef in the graph search; 0 for the exact scan. */
  readonly efMultiplier: number
  /** The recall that the service has measured; undefined without a measurement. */
  readonly claimed: number | undefined
}

/** The cost of one round. */
export interface RoundCost {
  readonly residentBytes: number
  readonly diskBytes: number
  readonly settledMs: readonly (number | undefined)[]
  readonly stoppedMs: number | undefined
}

export interface SetResult {
  readonly name: string
  readonly points: number
  readonly dimension: number
  readonly rows: readonly Row[]
  readonly rounds: readonly RoundCost[]
  readonly slowestMs: Readonly<Record<CallKind, number>>
  readonly faults: readonly string[]
  /** Warnings and errors that the service logged. */
  readonly complaints: readonly string[]
}

export const recallBar = 0.98

/**
 * The service promises a mean over many queries, and one query that finds nothing lowers the mean of thirty by .03. So if
 * a few queries stay below `recallBar`, `manyPerFew` times as many decide, unless the few are below this bar.
 */
export const fewQueriesBar = 0.9
export const manyPerFew = 10

/**
 * Runs one set through the battery:
 *
 *   load ── settle ── delete 90 % ──(kill -9 and start)── settle ── insert again while deleting ── SIGTERM under load ── start
 *     │        │           │                      │           │                │
 *   loaded  settled     deleted               restarted   resettled         churned: recall of all metrics, at once
 *
 * This repeats for the requested number of rounds; every other round omits the kill.
 */
export async function runSet(name: string, options: BatteryOptions): Promise<SetResult> {
  const vectors = hardVectors(name, { ...options, queries: manyPerFew * options.queries })
  const run = new SetRun(vectors, options)
  await run.toItsEnd()
  return { name, points: vectors.points.length, dimension: vectors.points[0]!.length, ...run.result }
}

class SetRun {
  readonly #vectors: HardVectors
  readonly #fewQueries: readonly Float32Array[]
  readonly #options: BatteryOptions
  readonly #random: () => number
  readonly #rows: Row[] = []
  readonly #rounds: RoundCost[] = []
  readonly #faults: string[] = []
  #settledMs: (number | undefined)[] = []
  #service!: HardService

  constructor(vectors: HardVectors, options: BatteryOptions) {
    this.#vectors = vectors
    this.#options = options
    this.#random = seededRandom(options.seed)
    this.#fewQueries = this.#shuffled(vectors.queries).slice(0, options.queries)
  }

  get result(): Pick<SetResult, 'rows' | 'rounds' | 'slowestMs' | 'faults' | 'complaints'> {
    const { slowest, complaints } = this.#service
    return {
      rows: this.#rows,
      rounds: this.#rounds,
      slowestMs: slowest,
      faults: [...this.#faults, ...this.#slowCalls(), ...this.#growth()],
      complaints,
    }
  }

  async toItsEnd(): Promise<void> {
    const { rounds, stopMs } = this.#options
    this.#service = await HardService.start(this.#vectors.points, this.#options)
    await using service = this.#service
    try {
      for (let round = 1; round <= rounds; round += 1) await this.#round(round)
    } catch (error) {
      const state = service.isRunning ? 'runs' : 'has ended'
      this.#faults.push(`gave up: ${inspect(error)}; the service ${state}:\n${service.lastOutput}`)
      // A hanging service must not delay the end.
      const ms = service.isRunning ? await service.terminate(stopMs) : 0
      if (ms === undefined) this.#faults.push(`after that, SIGTERM had no effect in ${stopMs} ms`)
    }
  }

  async #round(round: number): Promise<void> {
    const { points } = this.#vectors
    const { share } = this.#options
    const service = this.#service
    this.#settledMs = []
    await service.insert(this.#absent(), this.#perBatch(1000))
    await this.#measure(round, 'loaded')
    await this.#settle('the load')
    await this.#measure(round, 'settled')
    const going = this.#shuffled(service.stored).slice(0, Math.round(points.length * share))
    await service.remove(going, deletesInFlight)
    await this.#measure(round, 'deleted')
    if (round % 2 === 1) {
      await service.kill()
      await service.restart()
      await this.#measure(round, 'restarted')
      await service.reconcile()
    }
    await this.#settle('the deletion')
    await this.#measure(round, 'resettled')
    await this.#churn()
    await this.#measure(round, 'churned')
    const { residentBytes } = service
    const diskBytes = await service.diskBytes()
    const stoppedMs = await this.#stopUnderLoad()
    this.#rounds.push({ residentBytes, diskBytes, settledMs: this.#settledMs, stoppedMs })
    await service.restart()
    await service.reconcile()
  }

  async #measure(round: number, moment: Moment): Promise<void> {
    const few = await this.#ask(this.#fewQueries, round, moment)
    const isShort = few.some(({ recall, efMultiplier }) => efMultiplier > 0 && recall < recallBar)
    const rows = isShort ? await this.#ask(this.#vectors.queries, round, moment) : few
    this.#rows.push(...rows)
    this.#judgeRecall(few, isShort ? fewQueriesBar : recallBar)
    if (isShort) this.#judgeRecall(rows, recallBar)
  }

  #judgeRecall(rows: readonly Row[], bar: number): void {
    for (const { round, moment, metric, recall, efMultiplier } of rows) {
      const floor = efMultiplier === 0 ? 1 : bar
      if (recall < floor) {
        this.#faults.push(`round ${round}, ${moment}, ${metric}: recall ${recall.toFixed(4)} of ${floor}`)
      }
    }
  }

  async #ask(queries: readonly Float32Array[], round: number, moment: Moment): Promise<Row[]> {
    const { points, isWhole } = this.#vectors
    const before = (await this.#service.figures()).efMultiplier
    const answers = new Map<Metric, readonly (readonly number[])[]>()
    for (const metric of distanceMetrics) {
      answers.set(metric, await this.#service.search(queries, metric, k, searchesInFlight))
    }
    const after = await this.#service.figures()
    const stored = { points, inserted: this.#service.stored, isWhole }
    return distanceMetrics.map((metric) => {
      const { recall, disordered, short } = judge(stored, queries, metric, answers.get(metric)!)
      const where = `round ${round}, ${moment}, ${metric}`
      if (disordered > 0) this.#faults.push(`${where}: ${disordered} answers out of order`)
      if (short > 0) this.#faults.push(`${where}: ${short} answers too short`)
      const efMultiplier = Math.max(before[metric], after.efMultiplier[metric])
      return { round, moment, metric, recall, disordered, efMultiplier, claimed: after.recall[metric] }
    })
  }

  async #settle(after: string): Promise<void> {
    const ms = await this.#service.settled(this.#options.settleMs)
    this.#settledMs.push(ms)
    if (ms !== undefined) return
    const figures = JSON.stringify(await this.#service.figures())
    this.#faults.push(`not settled ${this.#options.settleMs} ms after ${after}: ${figures}`)
  }

  /** Inserts the deleted points again while the remaining ones are deleted and searches continue. */
  async #churn(): Promise<void> {
    const staying = this.#shuffled(this.#service.stored)
    const done = new AbortController()
    const searching = this.#searchUntil(done.signal)
    try {
      await Promise.all([
        this.#service.insert(this.#absent(), this.#perBatch(500)),
        this.#service.remove(staying, deletesInFlight / 4),
      ])
    } finally {
      done.abort()
      await searching
    }
  }

  async #searchUntil(signal: AbortSignal): Promise<void> {
    const { queries } = this.#vectors
    for (let turn = 0; !signal.aborted; turn += 1) {
      const metric = distanceMetrics[turn % distanceMetrics.length]!
      // The results change meanwhile; only an answer is required.
      await this.#service.searchIds(queries.slice(0, 8), metric, k, 4)
    }
  }

  /** @returns milliseconds from SIGTERM to the end of the process */
  async #stopUnderLoad(): Promise<number | undefined> {
    const { stopMs } = this.#options
    const done = new AbortController()
    // Interrupted calls may fail: the next start shows what they have stored.
    const load = [
      this.#service.insert(this.#absent(), this.#perBatch(50)).catch(() => {}),
      this.#searchUntil(done.signal).catch(() => {}),
    ]
    await Promise.race([sleep(200), ...load])
    const ms = await this.#service.terminate(stopMs)
    done.abort()
    await Promise.all(load)
    if (ms === undefined) this.#faults.push(`SIGTERM under load: it had not ended after ${stopMs} ms`)
    return ms
  }

  #absent(): number[] {
    return [...this.#vectors.points.keys()].filter((number) => !this.#service.isStored(number))
  }

  /** Smaller batches for very wide vectors. */
  #perBatch(most: number): number {
    return Math.max(1, Math.min(most, Math.floor(batchComponentsMax / this.#vectors.points[0]!.length)))
  }

  #shuffled<Item>(items: readonly Item[]): Item[] {
    return shuffled(items, this.#random)
  }

  #slowCalls(): string[] {
    const { slowMs } = this.#options
    return Object.entries(this.#service.slowest)
      .filter(([, ms]) => ms > slowMs)
      .map(([kind, ms]) => `a call of ${kind} took ${Math.round(ms)} ms of ${slowMs}`)
  }

  /** Growth from the earlier to the later half of the rounds. The first round does not count: it began empty. */
  #growth(): string[] {
    const rounds = this.#rounds.slice(1)
    if (rounds.length < 4) return []
    const half = Math.floor(rounds.length / 2)
    return (['residentBytes', 'diskBytes'] as const).flatMap((figure) => {
      const all = rounds.map((round) => round[figure])
      const earlier = Math.max(...all.slice(0, half))
      const later = Math.max(...all.slice(half))
      const isFlat = later <= 1.1 * earlier + flatBytes
      return isFlat ? [] : [`${figure} grow from ${earlier} to ${later} over ${rounds.length} rounds`]
    })
  }
}

const deletesInFlight = 190
const searchesInFlight = 16
/** Components of a batch: about 8 MB on the wire. */
const batchComponentsMax = 2_000_000
const flatBytes = 32 * 1024 * 1024

/** `SHUTDOWN_TIMEOUT_MS` plus the time that an idle machine gets for the rest of a stop. */
export const usualStopMs: number = shutdownTimeoutMs + 5_000

/** Small enough for `npm test`. On a busy machine, only a stuck service exceeds these bounds. */
export const shortOptions: BatteryOptions = {
  points: 2_100,
  hasSmallGraphs: true,
  queries: 30,
  rounds: 1,
  seed: 20_260_601,
  // With fewer than 512 remaining points, the graph is not used.
  share: 0.75,
  hangMs: 240_000,
  slowMs: 240_000,
  settleMs: 240_000,
  stopMs: shutdownTimeoutMs + 120_000,
}
