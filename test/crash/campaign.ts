import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { clusteredVectors } from '../support/clusters.ts'
import { programFile } from '../support/programs.ts'
import { randomVector, seededRandom } from '../support/random.ts'
import { until } from '../support/until.ts'
import { Load } from './load.ts'
import { insertAll, newPoints } from './new-points.ts'
import { Oracle } from './oracle.ts'
import { type Addresses, Clients, CrashServer } from './server.ts'
import {
  canTrace,
  changingCalls,
  committingCalls,
  FailingCalls,
  filesOf,
  HeldCall,
  type HoldPoint,
} from './strace.ts'
import { verify } from './verify.ts'

/** A collection that is always scanned, or one large enough for the index and its checkpoints. */
export type Size = 'scanned' | 'indexed'

/** How the service ends in a round. */
export type Death =
  | { readonly kind: 'at a random time'; readonly afterMs: number }
  | { readonly kind: 'after changes'; readonly changes: number }
  | ({ readonly kind: 'at a call' } & HoldPoint)
  | {
      readonly kind: 'after a failed call'
      readonly call: string
      readonly error: string
      readonly nth: number
    }
  | { readonly kind: 'in a checkpoint'; readonly afterMs: number }
  | { readonly kind: 'in a stop'; readonly afterMs: number }
  | { readonly kind: 'a clean stop' }

export interface CampaignOptions {
  readonly seed: number
  readonly size: Size
  /** Whether collections of any size have graphs. Then few short vectors suffice for one. */
  readonly hasSmallGraphs?: boolean
  /** Called for every round. */
  readonly report?: (line: string) => void
}

export interface Summary {
  /** Number of SIGKILLs that ended a process, by what they interrupted. */
  readonly kills: Readonly<Record<string, number>>
  readonly starts: number
  readonly cleanStops: number
  readonly calls: number
  readonly acknowledged: number
  /** Changes of single points and of all points of an insert; and how many of them a kill left unanswered. */
  readonly changes: number
  readonly unsettled: number
  readonly pointsCompared: number
  readonly removalsCompared: number
  /** Starts after which searches used the index, and the lowest recall after any of them. */
  readonly indexedStarts: number
  readonly recallMin: number | undefined
}

/**
 * One data directory and one oracle for many runs of the service: load, a sudden end, maybe one or two more during
 * recovery, a start, and a comparison of all contents.
 */
export class Campaign implements AsyncDisposable {
  readonly #options: CampaignOptions
  readonly #indexed: IndexedSize
  readonly #random: () => number
  readonly #oracle = new Oracle()
  readonly #vector: () => Float32Array
  readonly #directory: string
  readonly #kills = new Map<string, number>()
  readonly #counts = {
    starts: 0,
    cleanStops: 0,
    calls: 0,
    pointsCompared: 0,
    removalsCompared: 0,
    indexedStarts: 0,
  }
  #recallMin: number | undefined
  #server: CrashServer | undefined
  #starts = 0
  #death: Death | undefined
  #startMs = 1000

  private constructor(options: CampaignOptions, directory: string) {
    this.#options = options
    this.#directory = directory
    this.#random = seededRandom(options.seed)
    this.#indexed = options.hasSmallGraphs ? smallGraph : usualGraph
    this.#vector = vectorsOf(options.size, this.#indexed, this.#random)
  }

  static async create(options: CampaignOptions): Promise<Campaign> {
    return new Campaign(options, await mkdtemp(join(tmpdir(), 'vicinal-crash-')))
  }

  get killCount(): number {
    return [...this.#kills.values()].reduce((sum, count) => sum + count, 0)
  }

  get summary(): Summary {
    const kills = Object.fromEntries([...this.#kills].sort())
    const { acknowledged, changes, unsettled } = this.#oracle
    return { ...this.#counts, kills, acknowledged, changes, unsettled, recallMin: this.#recallMin }
  }

  /** The planned end of the last run of the service, and its last output. */
  get lastLife(): string {
    return `${JSON.stringify(this.#death)}\n${this.#server?.lastOutput ?? ''}`
  }

  /** Starts the service, compares, loads, ends it, and maybe kills the next starts during recovery. */
  async round(death: Death = this.#anyDeath()): Promise<void> {
    this.#death = death
    const recoveryKills = this.#random() < 0.3 ? 1 + Math.floor(this.#random() * 2) : 0
    this.#options.report?.(
      `${describe(death)}${recoveryKills > 0 ? `, then ${recoveryKills} in recovery` : ''}`,
    )
    using held = death.kind === 'at a call' ? new HeldCall(this.#dataDir, death) : undefined
    using failing = death.kind === 'after a failed call' ? this.#failing(death) : undefined
    await using process = this.#spawn((held ?? failing)?.wrapper)
    if (await this.#isReady(process, held ?? failing)) await this.#live(process, death, held ?? failing)
    else this.#count(`${describe(death)}, in a start`)
    for (let kill = 0; kill < recoveryKills; kill += 1) await this.#dieInRecovery()
  }

  /** Starts the service, compares and stops it cleanly, twice. */
  async finish(): Promise<void> {
    for (let time = 0; time < 2; time += 1) {
      await using process = this.#spawn()
      await this.#compare(await process.ready, true)
      await this.#stopCleanly(process)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server?.[Symbol.asyncDispose]()
    await rm(this.#directory, { recursive: true, force: true })
  }

  /** Returns false if the service is held at a call, or one of its calls fails, before it is ready. */
  async #isReady(process: CrashServer, traced: HeldCall | FailingCalls | undefined): Promise<boolean> {
    const started = performance.now()
    let isOver = false
    const isReady = process.ready.then(
      () => true,
      (error: unknown) => {
        if (traced instanceof FailingCalls && traced.hasFailed) return false
        throw error
      },
    )
    const held = traced instanceof HeldCall ? traced : undefined
    const isHeld = held?.reached(() => isOver).then((isReached) => !isReached)
    const isServing = await Promise.race(isHeld === undefined ? [isReady] : [isReady, isHeld])
    isOver = true
    if (!isServing) {
      process.kill()
      await process.ended
      return false
    }
    this.#counts.starts += 1
    this.#startMs = performance.now() - started
    return true
  }

  #failing({ call, error, nth }: Death & { kind: 'after a failed call' }): FailingCalls {
    return new FailingCalls(filesOf(this.#dataDir), `${call}:error=${error}:when=${nth}`)
  }

  async #live(
    process: CrashServer,
    death: Death,
    traced: HeldCall | FailingCalls | undefined,
  ): Promise<void> {
    const addresses = await process.ready
    await this.#compare(addresses, traced === undefined)
    await using clients = new Clients(addresses)
    await this.#fill(clients)
    const { grpc, http } = clients
    const load = new Load([grpc, http, grpc, http, grpc], {
      oracle: this.#oracle,
      random: this.#random,
      vector: this.#vector,
      pointsMax: this.#options.size === 'scanned' ? 1500 : this.#indexed.points * 1.2,
      isExact: this.#options.size === 'scanned',
    })
    await this.#end(process, death, traced, load)
    process.kill()
    await process.ended
    await load.stop()
    this.#counts.calls += load.calls
    const faults = load.faults.filter((fault) => traced instanceof HeldCall || !refusals.test(fault))
    if (faults.length > 0) throw new Error(faults.join('\n'))
  }

  /** Fills the collection to the size above which the index is used. */
  async #fill({ grpc }: Clients): Promise<void> {
    while (this.#options.size === 'indexed' && this.#oracle.live.size < this.#indexed.points) {
      const marker = this.#oracle.marker()
      const points = newPoints(marker, 500, () => 0, this.#vector)
      this.#oracle.sent(marker, points)
      try {
        this.#oracle.stored(marker, await insertAll(grpc, points, { signal: AbortSignal.timeout(fillMs) }))
      } catch {
        // Held or killed during the batch: the comparison after the restart settles its outcome.
        return
      }
    }
  }

  async #end(
    process: CrashServer,
    death: Death,
    traced: HeldCall | FailingCalls | undefined,
    load: Load,
  ): Promise<void> {
    switch (death.kind) {
      case 'at a random time':
        await delay(death.afterMs)
        return this.#count('under load')
      case 'after changes':
        await this.#untilChanged(death.changes, process, load)
        return this.#count('under load')
      case 'at a call': {
        const isOfCheckpoint = this.#options.size === 'indexed' && checkpointCalls.includes(death.call)
        if (isOfCheckpoint) await delay(200).then(() => load.stop())
        const until = performance.now() + (isOfCheckpoint ? checkpointWaitMs : callWaitMs)
        const isHeld = await (traced as HeldCall).reached(() => performance.now() > until)
        if (isHeld) return this.#count(describe(death))
        return this.#count(isOfCheckpoint ? 'idle' : 'under load')
      }
      case 'after a failed call': {
        const failing = traced as FailingCalls
        for (const until = performance.now() + callWaitMs; performance.now() < until; await delay(50)) {
          if (failing.hasFailed) break
        }
        await load.stop()
        // Reads continue, and refused changes have not happened.
        await this.#compare(await process.ready, false)
        return this.#count(failing.hasFailed ? `after ${death.error} of ${death.call}` : 'idle')
      }
      case 'in a checkpoint': {
        await Promise.all([delay(200), this.#untilChanged(1, process, load)])
        await load.stop()
        const isWriting = await this.#checkpointBegins(checkpointWaitMs)
        await delay(death.afterMs)
        return this.#count(isWriting ? 'in a checkpoint' : 'idle')
      }
      case 'in a stop':
        await delay(300)
        process.kill('SIGTERM')
        if (this.#options.size === 'indexed') await this.#checkpointBegins(500)
        await delay(death.afterMs)
        return process.isRunning ? this.#count('in a stop') : undefined
      case 'a clean stop':
        await delay(300)
        return this.#stopCleanly(process)
    }
  }

  /** Waits until the load has made a number of changes, however slow the machine is. */
  async #untilChanged(changes: number, process: CrashServer, load: Load): Promise<void> {
    const enough = this.#oracle.changes + changes
    await until(() => this.#oracle.changes >= enough || !process.isRunning || load.faults.length > 0)
  }

  async #stopCleanly(process: CrashServer): Promise<void> {
    const { code, signal } = await process.stop()
    if (code !== 0) throw new Error(`a clean stop ended with ${signal ?? code}:\n${process.output}`)
    this.#counts.cleanStops += 1
  }

  async #checkpointBegins(waitMs: number): Promise<boolean> {
    const path = join(this.#dataDir, 'collections/0/index', 'graph-0-0.bin.new')
    for (const until = performance.now() + waitMs; performance.now() < until; await delay(1)) {
      if (existsSync(path)) return true
    }
    return false
  }

  async #dieInRecovery(): Promise<void> {
    await using process = this.#spawn()
    const isReady = process.ready.then(
      () => true,
      () => false,
    )
    const wasReady = await Promise.race([isReady, delay(this.#startMs * this.#random()).then(() => false)])
    process.kill()
    const { code } = await process.ended
    if (code !== null)
      throw new Error(`it ended with ${code} without a kill during recovery:\n${process.output}`)
    this.#count(wasReady ? 'idle' : 'in recovery')
  }

  /** @param repeats see `VerifyOptions` */
  async #compare(addresses: Addresses, repeats: boolean): Promise<void> {
    await using clients = new Clients(addresses)
    const isIndexed = this.#options.size === 'indexed'
    const { points, removals, recall } = await verify(clients, {
      oracle: this.#oracle,
      random: this.#random,
      vector: this.#vector,
      isExact: !isIndexed,
      readsMax: isIndexed ? 600 : 3000,
      repeats,
    })
    this.#counts.pointsCompared += points
    this.#counts.removalsCompared += removals
    if (recall === undefined) return
    if (recall < recallMin) throw new Error(`recall is ${recall} after a restart, below ${recallMin}`)
    this.#recallMin = Math.min(recall, this.#recallMin ?? 1)
    if (await isThroughIndex(addresses.httpUrl)) this.#counts.indexedStarts += 1
  }

  #spawn(wrapper?: readonly string[]): CrashServer {
    this.#starts += 1
    // Two of three starts keep the vectors on disk.
    const env = { VECTORS_ON_DISK: String(this.#starts % 3 !== 0) }
    const program = this.#options.hasSmallGraphs ? { program: [programFile('test/hard/serve.ts')] } : {}
    this.#server = new CrashServer(this.#dataDir, { env, ...program, ...(wrapper && { wrapper }) })
    return this.#server
  }

  get #dataDir(): string {
    return join(this.#directory, 'data')
  }

  #count(what: string): void {
    this.#kills.set(what, (this.#kills.get(what) ?? 0) + 1)
  }

  #anyDeath(): Death {
    const random = this.#random
    const dice = random()
    if (dice < 0.1) return { kind: 'a clean stop' }
    if (dice < 0.2) return { kind: 'in a stop', afterMs: random() * 20 }
    if (dice < 0.4 && this.#options.size === 'indexed')
      return { kind: 'in a checkpoint', afterMs: random() * 20 }
    if (dice < 0.6 || !canTrace()) return { kind: 'at a random time', afterMs: random() * 1500 }
    return dice < 0.85 ? this.#anyCall() : this.#anyFailure()
  }

  #anyFailure(): Death {
    const call = committingCalls[Math.floor(this.#random() * committingCalls.length)]!
    const error = this.#random() < 0.7 ? 'EIO' : 'ENOSPC'
    return { kind: 'after a failed call', call, error, nth: 1 + Math.floor(this.#random() ** 2 * 40) }
  }

  /** A random call at which the service can be held, more often an early one. */
  #anyCall(): Death {
    const calls = this.#options.size === 'indexed' ? changingCalls : committingCalls
    const call = calls[Math.floor(this.#random() * calls.length)]!
    const side = this.#random() < 0.5 ? 'before' : 'after'
    const most = checkpointCalls.includes(call) ? 8 : 60
    return { kind: 'at a call', call, side, nth: 1 + Math.floor(this.#random() ** 2 * most) }
  }
}

/** The messages that callers get when the disk fails. */
const refusals = /the disk failed: writes are stopped|payloads are being reopened|is full: free some space/

function describe(death: Death): string {
  return death.kind === 'at a call' ? `${death.side} ${death.call}` : death.kind
}

/** Scanned: few components, half of the vectors so coarse that many distances are equal. Indexed: like embeddings. */
function vectorsOf(size: Size, { points, dimension }: IndexedSize, random: () => number): () => Float32Array {
  if (size === 'scanned') {
    return () => randomVector(random, 16, random() < 0.5 ? 'continuous' : 'small integers')
  }
  const stock = clusteredVectors(random, 3 * points, dimension)
  let next = 0
  return () => stock[next++ % stock.length]!
}

async function isThroughIndex(httpUrl: string): Promise<boolean> {
  const metrics = await (await fetch(`${httpUrl}/metrics`)).text()
  return /vicinal_index_ef_multiplier\{metric="Euclidean"\} [1-9]/.test(metrics)
}

/** Calls of a checkpoint that commits make rarely or never. */
const checkpointCalls: readonly string[] = ['write', 'fsync', 'rename', 'openat']

interface IndexedSize {
  readonly points: number
  readonly dimension: number
}

/** 5 MiB of vectors; the graph begins at 4 MiB. */
const usualGraph: IndexedSize = { points: 5120, dimension: 256 }
const smallGraph: IndexedSize = { points: 1500, dimension: 64 }
const recallMin = 0.95
/** A batch without an answer after this time is held at a call. */
const fillMs = 8000
const callWaitMs = 2000
/** A checkpoint is due about three seconds after the last change. */
const checkpointWaitMs = 8000
