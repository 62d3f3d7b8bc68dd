import { availableParallelism } from 'node:os'
import type { LoadData } from '../load/load-data.ts'
import type { Transport } from '../load/load-plan.ts'
import { usageOf } from '../load/usage.ts'
import { isReading, plainWorkloads, type WorkloadName, workloadOf } from '../load/workloads.ts'
import type { Options } from '../options.ts'
import { type ChromaTarget, startChroma } from '../targets/chroma.ts'
import { IndexRate } from '../targets/index-rate.ts'
import type { Target } from '../targets/target.ts'
import { startEcho, startVicinal } from '../targets/vicinal.ts'
import { type Disturbed, disturb, disturbances } from './disturbed.ts'
import { type Measurement, measure, recallOf, warmUp } from './measure.ts'
import type { Fill, IndexRateOfRound, SetResult } from './set-result.ts'
import { measureByTool, type ToolResult, toolOf } from './tools.ts'

/**
 * Measures all targets on one data set. The targets are filled one after another and keep running. Then they take
 * turns, and each round starts with another target. Read-only workloads run before those that insert, and inserted
 * points are linked before the next turn.
 */
export class SetRun implements AsyncDisposable {
  readonly #data: LoadData
  readonly #options: Options
  readonly #stack = new AsyncDisposableStack()
  readonly #targets: Target[] = []
  readonly #measurements: Measurement[] = []
  readonly #fills: Fill[] = []
  #index: IndexRate | undefined
  #indexRecall: number | undefined
  readonly #indexRates: IndexRateOfRound[] = []

  constructor(data: LoadData, options: Options) {
    this.#data = data
    this.#options = options
  }

  async measure(): Promise<SetResult> {
    const { set } = this.#data
    const { rounds, k, ef } = this.#options
    await this.#prepare()
    await this.#rounds(rounds, (name) => isReading(name))
    const tools = await this.#tools()
    const disturbed = await this.#disturbed(rounds, (name) => name !== 'search during ingest')
    await this.#rounds(rounds, (name) => !isReading(name))
    const ingesting = await this.#disturbed(rounds, (name) => name === 'search during ingest')
    return {
      set: set.name,
      description: `${set.description}; ${set.count} rows, ${set.queryCount} queries, k ${k}, ef ${ef}`,
      fills: this.#fills,
      indexRecall: this.#indexRecall,
      indexRates: this.#indexRates,
      measurements: this.#measurements,
      tools,
      disturbed: [...disturbed, ...ingesting],
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync()
  }

  async #prepare(): Promise<void> {
    const { targets } = this.#options
    if (targets.includes('index')) await this.#prepareIndex()
    if (targets.includes('echo')) this.#targets.push(this.#stack.use(await startEcho()))
    if (targets.includes('vicinal')) await this.#prepareTarget(await startVicinal())
    if (targets.includes('chroma')) await this.#prepareChroma(await startChroma())
    const workload = workloadOf('search', this.#data, this.#options)
    for (const target of this.#targets) {
      for (const transport of this.#transportsOf(target)) {
        await warmUp(target, { workload, transport, seconds: this.#options.warmup })
      }
    }
  }

  async #prepareIndex(): Promise<void> {
    const { k, ef } = this.#options
    console.error('  index: building')
    this.#index = this.#stack.use(await IndexRate.build(this.#data.set))
    const { rows } = await this.#index.ask({ k, ef, threads: 0, seconds: 0 })
    this.#indexRecall = this.#data.truth.recall(rows, k)
  }

  async #prepareTarget(target: Target): Promise<number | undefined> {
    const { ef } = this.#options
    this.#targets.push(this.#stack.use(target))
    console.error(`  ${target.name}: filling`)
    const filled = await target.fill(this.#data.rows)
    const recall = await recallOf(target, this.#data, this.#options)
    if (filled === undefined) return recall
    const count = this.#data.rows.length
    const [perSecond, storedPerSecond] = [count / filled.indexedSeconds, count / filled.seconds]
    const rssBytes = usageOf(target.pid)?.rssBytes
    this.#fills.push({ target: target.name, perSecond, storedPerSecond, ef, recall, rssBytes })
    console.error(
      `  ${target.name}: ${Math.round(perSecond)} points per second, recall ${recall?.toFixed(4)}`,
    )
    return recall
  }

  /** Chooses the ef at which Chroma reaches Vicinal's recall. */
  async #prepareChroma(chroma: ChromaTarget): Promise<void> {
    await this.#prepareTarget(chroma)
    const goal = this.#fills.find(({ target }) => target === 'vicinal')?.recall ?? recallUsual
    let recall: number | undefined
    const ef = await chroma.calibrate(async () => {
      recall = await recallOf(chroma, this.#data, this.#options)
      return recall!
    }, goal - recallTolerance)
    recall = await recallOf(chroma, this.#data, this.#options)
    const filled = this.#fills.pop()!
    this.#fills.push({ ...filled, ef, recall, rssBytes: usageOf(chroma.pid)?.rssBytes })
    console.error(`  chroma: recall ${recall?.toFixed(4)} with ef ${ef}`)
  }

  async #rounds(rounds: number, includes: (name: WorkloadName) => boolean): Promise<void> {
    const names = this.#names(plainWorkloads).filter(includes)
    for (let round = 0; round < rounds; round += 1) {
      if (names.includes('search')) await this.#measureIndex(round)
      for (const name of names) await this.#eachTarget(name, round)
    }
  }

  async #eachTarget(name: WorkloadName, round: number): Promise<void> {
    const first = round % Math.max(1, this.#targets.length)
    for (const target of [...this.#targets.slice(first), ...this.#targets.slice(0, first)]) {
      for (const transport of this.#transportsOf(target)) {
        await this.#measure(target, name, transport, round)
      }
    }
  }

  async #measure(target: Target, name: WorkloadName, transport: Transport, round: number): Promise<void> {
    const earlier = this.#earlier(target.name, name, transport)
    // A workload that took far longer than planned on a server is not repeated.
    if (earlier !== undefined && earlier.full.seconds > slowFactor * this.#options.seconds) return
    const workload = workloadOf(name, this.#data, this.#options)
    const { seconds } = this.#options
    const pressure = earlier && { connections: earlier.connections, inFlight: earlier.inFlight }
    const measurement = await measure(target, { workload, transport, seconds, round, pressure })
    this.#measurements.push(measurement)
    await target.settled()
    const rate = Math.round(measurement.itemsPerSecond)
    console.error(`  round ${round + 1}: ${name}, ${target.name} over ${transport}: ${rate} per second`)
  }

  #earlier(target: string, workload: string, transport: Transport): Measurement | undefined {
    return this.#measurements.find(
      (each) => each.target === target && each.workload === workload && each.transport === transport,
    )
  }

  async #measureIndex(round: number): Promise<void> {
    if (this.#index === undefined) return
    const { k, ef, seconds } = this.#options
    const rateOn = async (threads: number): Promise<number> =>
      (await this.#index!.ask({ k, ef, threads, seconds })).queriesPerSecond
    this.#indexRates.push({
      round,
      oneThread: await rateOn(1),
      allCores: await rateOn(availableParallelism()),
    })
  }

  async #tools(): Promise<ToolResult[]> {
    const results: ToolResult[] = []
    if (!this.#options.workloads.includes('search')) return results
    const workload = workloadOf('search', this.#data, this.#options)
    for (const transport of this.#options.transports) {
      for (const target of this.#targets.filter(({ ports }) => ports[transport] !== undefined)) {
        const result = await measureByTool(target, workload, transport, this.#options.seconds)
        if (result !== undefined) results.push(result)
        else {
          console.error(
            `  ${toolOf[transport]} is not installed: skipped (apt-get install nghttp2-client wrk)`,
          )
          break
        }
      }
    }
    return results
  }

  async #disturbed(rounds: number, includes: (name: WorkloadName) => boolean): Promise<Disturbed[]> {
    const target = this.#targets.find(({ name }) => name === 'vicinal')
    if (target === undefined) return []
    const results: Disturbed[] = []
    const names = this.#names(disturbances).filter(includes)
    for (let round = 0; round < rounds; round += 1) {
      for (const name of names) {
        for (const transport of this.#options.transports) {
          const searched = this.#earlier(target.name, 'search', transport)
          const searchesPerSecond = searched?.itemsPerSecond ?? searchesUsual
          console.error(`  round ${round + 1}: ${name}, ${transport}`)
          results.push(
            await disturb(target, this.#data, this.#options, { name, transport, round, searchesPerSecond }),
          )
          await target.settled()
        }
      }
    }
    return results
  }

  #transportsOf({ ports }: Target): Transport[] {
    return this.#options.transports.filter((transport) => ports[transport] !== undefined)
  }

  #names(all: readonly WorkloadName[]): WorkloadName[] {
    return all.filter((name) => this.#options.workloads.includes(name))
  }
}

/** Chroma's recall target in a run without Vicinal. */
const recallUsual = 0.99
/** Recall varies by this much with the insertion order of the same rows. */
const recallTolerance = 0.001
const slowFactor = 4
/** Assumed in a run without single searches. */
const searchesUsual = 2000
