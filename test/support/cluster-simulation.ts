import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { DatabaseError } from '../../src/base/errors.ts'
import type { Filter } from '../../src/base/filter.ts'
import { idFromBytes } from '../../src/base/ids.ts'
import { PartitionSet, partitionOf } from '../../src/base/partitions.ts'
import type { NewPoint, Precondition } from '../../src/base/point.ts'
import { consistencies } from '../../src/base/request-headers.ts'
import type { ClusterNode } from '../../src/cluster/cluster-node.ts'
import type { Owners } from '../../src/cluster/reads/placement.ts'
import type { Database } from '../../src/points/database.ts'
import { ClusterModel, type ModelOutcome } from './cluster-model.ts'
import { type RunningNode, SimulatedNode } from './cluster-nodes.ts'
import { SimulatedShards } from './cluster-shards.ts'
import { SeededFaults, SharedMemoryDocuments, SharedMemoryLog } from './memory-log.ts'
import { MovingParts, SimulatedTopology } from './moving-parts.ts'
import { seededRandom } from './random.ts'
import { until, waitFor } from './until.ts'

export interface SimulationOptions {
  readonly seed: number
  readonly nodes: number
  /** Copies of each point; absent: one on every node. */
  readonly replicas?: number | undefined
  /** Nodes that join while the others run. Nodes are then drained too. Absent: no node joins or leaves. */
  readonly joining?: number | undefined
  /** Operations of each client. */
  readonly operations: number
  readonly clients: number
  /** How long a node tries a request; absent: 5 s. Long where much must be answered, even on a slow disk. */
  readonly timeoutMs?: number | undefined
  /** The clocks of the nodes are off by up to this many microseconds; absent: up to a second ahead. */
  readonly clocksOffUs?: number | undefined
  /** The share of changes by filter in all writes; absent: a tenth. They replace changes of single points. */
  readonly changesByFilter?: number | undefined
  /** How likely a node is restarted before an operation; absent: 0.02. */
  readonly restarts?: number | undefined
  /** How long partitions may move when the clients have ended; absent: minutes. */
  readonly settleMs?: number | undefined
  /** Introduces a fault into a node each time it has started. */
  readonly mutate?: ((node: SimulatedNode) => void) | undefined
}

/** An answered operation, to be compared with the log. */
interface Answered {
  readonly name: string
  readonly outcome: ModelOutcome
}

interface Read {
  readonly id: string
  readonly version: number | undefined
  readonly what: string
  /** The answer must be true at some log position in this range. */
  readonly from: number
  readonly to: number
}

/** A list or a search of all points: their ids and versions. */
interface WideRead extends Pick<Read, 'what' | 'from' | 'to'> {
  readonly points: readonly (readonly [string, number])[]
}

/** An insert without the contents of its points. */
interface InsertBody {
  readonly onError: 'abort' | 'continue'
  readonly items: readonly Pick<NewPoint, 'id' | 'onConflict'>[]
}

const idsInUse = 16
const keysInUse = 6
const startUs = 1_700_000_000_000_000

/**
 * Clients write to and read from random nodes while the log has faults, clocks differ, and nodes stop and start again.
 * Afterwards all answers and the contents of all nodes are compared with a reference model of the log.
 */
export class ClusterSimulation implements AsyncDisposable {
  readonly #options: SimulationOptions
  readonly #random: () => number
  readonly #faults: SeededFaults
  readonly #log: SharedMemoryLog
  #nodes: readonly SimulatedNode[]
  readonly #shards: SimulatedShards
  readonly #topology: SimulatedTopology | undefined
  /** The moving parts of each node, by name. */
  readonly #parts = new Map<string, MovingParts>()
  /** Nodes that have not joined yet. */
  readonly #coming: SimulatedNode[]
  #moves = 0
  readonly #ids: string[]
  readonly #answered: Answered[] = []
  readonly #reads: Read[] = []
  readonly #wideReads: WideRead[] = []
  /** The last insert under each idempotency key. */
  readonly #bodies = new Map<string, InsertBody>()
  /** Counter for unique contents of writes. */
  #names = 0
  /** The id of a point that has just changed: a node that is behind still has its old state. */
  #changed: string
  #nowUs = startUs
  /** The highest position that any client knows is applied. */
  #known = 0
  #restarts = 0
  #isRestarting = false
  /** The first fault that a client has found: the others stop. */
  #found: unknown
  /** The final owners, if partitions move. */
  #owners: Owners | undefined

  constructor(options: SimulationOptions) {
    this.#options = options
    const random = seededRandom(options.seed)
    this.#random = random
    this.#faults = new SeededFaults(
      {
        delay: 0.2,
        refused: 0.02,
        lost: 0.02,
        answerLost: 0.03,
        late: 0.02,
        readerDies: 0.02,
        behind: 0.05,
        skipped: 0.005,
        askLost: 0.02,
        slowDisk: 0.5,
      },
      seededRandom(options.seed + 1),
    )
    this.#log = new SharedMemoryLog({ faults: this.#faults, nowMs: () => this.#nowUs / 1000 })
    const { joining = 0 } = options
    const names = Array.from({ length: options.nodes + joining }, (_, index) => `node-${index}`)
    const { replicas = options.nodes } = options
    this.#shards = new SimulatedShards(names, replicas, this.#faults, () => this.#nodes)
    const documents = new SharedMemoryDocuments({ announcementMs: 500 })
    this.#topology = joining === 0 ? undefined : new SimulatedTopology(documents)
    const all = names.map((name, index) => {
      const { clocksOffUs } = options
      const aheadUs = Math.floor(
        clocksOffUs === undefined ? random() * 1e6 : (random() - 0.5) * 2 * clocksOffUs,
      )
      if (this.#topology !== undefined) this.#addParts(name, index, documents)
      const shardingOf = this.#parts.get(name)?.sharding
      const sharding = shardingOf === undefined ? this.#shards.shardingOf(name) : undefined
      return new SimulatedNode({
        name,
        log: this.#log,
        nowUs: () => this.#nowUs + aheadUs,
        documents,
        sharding,
        shardingOf,
        beforeStore: async () => {
          if (this.#faults.happens('slowDisk')) await this.#faults.pause()
        },
        // Clients soon continue with another operation.
        timeoutMs: options.timeoutMs ?? 5000,
      })
    })
    this.#nodes = all.slice(0, options.nodes)
    this.#coming = all.slice(options.nodes)
    this.#ids = Array.from({ length: idsInUse }, () => this.#newId())
    this.#changed = this.#ids[0]!
  }

  /** Counts of the run, for human readers. */
  get summary(): Readonly<Record<string, number>> {
    return {
      answered: this.#answered.length,
      reads: this.#reads.length,
      wideReads: this.#wideReads.length,
      restarts: this.#restarts,
      moves: this.#moves,
      records: this.#log.bounds.last,
    }
  }

  async run(): Promise<void> {
    for (const node of this.#nodes) await this.#start(node)
    const clients = Array.from({ length: this.#options.clients }, () =>
      this.#client().catch((error: unknown) => {
        this.#found ??= error
      }),
    )
    // Wait for all clients even if one fails: another may be starting a node.
    await Promise.all(clients)
    if (this.#found !== undefined) throw this.#found
    this.#faults.chances = {}
    for (const node of this.#nodes) if (node.running === undefined) await this.#start(node)
    if (this.#topology === undefined) return
    const isSettled = async (): Promise<boolean> => {
      // If nodes differ, partitions may never move again.
      for (const node of this.#nodes) this.#checkAudits(node)
      this.#checkNothingLost()
      return await this.#topology!.isSettled(this.#nodes)
    }
    await until(isSettled, 'every partition is where it should be', this.#options.settleMs)
    this.#owners = (await this.#topology.read()).ownership.owners
  }

  /** @throws AssertionError for any difference from the log */
  async check(): Promise<void> {
    await this.#rest()
    const model = await ClusterModel.read(this.#log)
    for (const { name, outcome } of this.#answered) {
      assert.deepEqual(model.outcomes.get(name), outcome, `the answer of ${name}`)
    }
    for (const read of this.#reads) checkRead(model, read)
    for (const read of this.#wideReads) {
      const versions = new Map(read.points)
      for (const id of model.ids) checkRead(model, { ...read, id, version: versions.get(id) })
      assert.equal(read.points.length, versions.size, `a ${read.what} read has each point once`)
    }
    const expected = new Map(
      [...model.visible].map(([id, { version, content }]) => [id, { version, content }]),
    )
    for (const node of this.#nodes) {
      const held = this.#heldBy(node)
      const own = new Map([...expected].filter(([id]) => held.has(partitionOf(id))))
      assert.deepEqual(await stored(node.up.main), own, `the points of ${node.name}`)
      const { digest } = node.up.main.replica
      assert.deepEqual(Buffer.from(digest), Buffer.from(model.digestOf(held)), `the digest of ${node.name}`)
      this.#checkAudits(node)
    }
    // Whichever node is asked, it finds all points.
    for (const { name, up } of this.#nodes) {
      const found = await this.#asked(() => stored(up.node.database))
      assert.deepEqual(found, expected, `the points that ${name} finds`)
      const count = await this.#asked(() => up.node.database.count())
      assert.equal(count, expected.size, `the points that ${name} counts`)
    }
    const lists = await Promise.all(
      this.#nodes.map(async (node) => ({ held: this.#heldBy(node), list: await listed(node.up) })),
    )
    for (const one of lists) {
      for (const other of lists) {
        assert.deepEqual(within(one.list, other.held), within(other.list, one.held), 'the order of insertion')
      }
    }
  }

  /** Checks that every partition is still on some node, as far as all nodes are running. */
  #checkNothingLost(): void {
    if (this.#nodes.some(({ running }) => running === undefined)) return
    const held = this.#nodes.map(({ up }) => up.node.held)
    for (const partition of PartitionSet.all()) {
      assert.ok(
        held.some((each) => each.has(partition)),
        `no node has partition ${partition} any more`,
      )
    }
  }

  #checkAudits({ name, up }: SimulatedNode): void {
    assert.equal(up.node.status.digestMismatches, 0, `audits of ${name}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#faults.chances = {}
    for (const parts of this.#parts.values()) await parts.close()
    for (const node of [...this.#nodes, ...this.#coming]) await node[Symbol.asyncDispose]()
  }

  /** Waits until all nodes have applied every record and all expired points are deleted. */
  async #rest(): Promise<void> {
    for (const { up } of this.#nodes) await up.node.caughtUp()
    for (;;) {
      for (const { up } of this.#nodes) {
        await this.#asked(() => up.node.latest(undefined))
        await this.#asked(() => up.node.database.count())
      }
      const { last } = this.#log.bounds
      const isDone = this.#nodes.every(
        ({ up }) => up.node.position === last && up.main.livePoints.expirations.hiddenCount === 0,
      )
      if (isDone) return
      await delay(5)
    }
  }

  /** Retries while a busy machine is too slow: what nodes announce about themselves is valid for half a second. */
  async #asked<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    const { answer } = await waitFor(async () => {
      try {
        return { answer: await ask() }
      } catch (error) {
        this.#checkUnknown(error)
        return undefined
      }
    })
    return answer
  }

  /** The partitions that a node should hold at the end. */
  #heldBy({ name }: SimulatedNode): PartitionSet {
    const owners = this.#owners
    if (owners !== undefined)
      return PartitionSet.of([...PartitionSet.all()].filter((partition) => owners[partition]!.includes(name)))
    return this.#shards.heldBy(name)
  }

  async #start(node: SimulatedNode): Promise<void> {
    await node.start()
    this.#options.mutate?.(node)
    this.#parts.get(node.name)?.start(node.up)
  }

  #addParts(name: string, index: number, documents: SharedMemoryDocuments): void {
    const [{ replicas = 1 }, peers, log] = [this.#options, this.#shards.peersOf(name), this.#log.connect()]
    const zone = `zone-${index % 2}`
    this.#parts.set(name, new MovingParts({ name, zone, replicas, log, documents, peers }))
  }

  /** A node joins, a node is drained, or a drain is cancelled. */
  async #change(): Promise<void> {
    const topology = this.#topology!
    this.#moves += 1
    const next = this.#random() < 0.6 ? this.#coming.shift() : undefined
    if (next !== undefined) {
      // The others send it requests as soon as it runs.
      this.#nodes = [...this.#nodes, next]
      return await this.#start(next)
    }
    const { members } = await topology.read()
    const drained = Object.keys(members).filter((name) => members[name]!.state === 'draining')
    const [first] = drained
    if (first !== undefined) await topology.drain(first, false)
    else await topology.drain(this.#pick(...Object.keys(members))!, true)
  }

  async #client(): Promise<void> {
    let position = 0
    for (let left = this.#options.operations; left > 0 && this.#found === undefined; left -= 1) {
      this.#checkNothingLost()
      this.#nowUs += Math.floor(this.#random() * 100_000)
      if (this.#random() < (this.#options.restarts ?? 0.02)) await this.#restart()
      if (this.#topology !== undefined && this.#random() < 0.04) await this.#change()
      const running = this.#pick(...this.#nodes.filter((node) => node.running !== undefined))?.running
      if (running === undefined) continue
      await (this.#random() < 0.5 ? this.#read(running, position) : this.#write(running))
      position = Math.max(position, running.node.answeredPosition)
      this.#known = Math.max(this.#known, position)
    }
  }

  /** Restarts one node at a time, so that other nodes can answer. */
  async #restart(): Promise<void> {
    const node = this.#pick(...this.#nodes)!
    if (this.#isRestarting || this.#nodes.some(({ running }) => running === undefined)) return
    this.#isRestarting = true
    this.#restarts += 1
    const { up } = node
    await this.#parts.get(node.name)?.stop()
    await up.stop()
    await this.#start(node)
    this.#isRestarting = false
  }

  async #read(running: RunningNode, position: number): Promise<void> {
    const consistency = this.#pick(...consistencies)!
    const from = { available: 0, session: position, latest: this.#known }[consistency]
    try {
      const asOf = await running.node.admit({ consistency, position })
      const database = running.node.database.asOf(asOf)
      await (this.#random() < 0.2
        ? this.#readAll(database, consistency, from)
        : this.#readOne(database, consistency, from))
    } catch (error) {
      this.#checkUnknown(error)
    }
  }

  async #readOne(database: Pick<Database, 'get'>, what: string, from: number): Promise<void> {
    const id = this.#random() < 0.3 ? this.#pick(...this.#ids)! : this.#changed
    const point = await database.get(id)
    this.#reads.push({ id, version: point?.version, what, from, to: this.#log.bounds.last })
  }

  async #readAll(database: Pick<Database, 'list' | 'search'>, what: string, from: number): Promise<void> {
    const points = await (this.#random() < 0.5 ? versionsListed(database) : versionsSearched(database))
    this.#wideReads.push({ points, what, from, to: this.#log.bounds.last })
  }

  async #write({ node }: RunningNode): Promise<void> {
    this.#names += 1
    const name = `write ${this.#names}`
    try {
      const answer = await this.#request(node, name)
      if (answer !== undefined) this.#answered.push({ name, outcome: { answer } })
    } catch (error) {
      const isRefused = error instanceof DatabaseError && decided.has(error.reason)
      if (isRefused) this.#answered.push({ name, outcome: { refused: error.reason } })
      else this.#checkUnknown(error)
    }
  }

  /** Sends a write and returns its answer in a comparable form. */
  async #request({ database }: ClusterNode, name: string): Promise<unknown> {
    const id = this.#pick(...this.#ids)!
    const choice = this.#random()
    const { changesByFilter = 0.1 } = this.#options
    if (choice >= 1 - changesByFilter) {
      const change = this.#random() < 0.5 ? 'delete' : { content: name }
      const limit = 1 + Math.floor(this.#random() * 5)
      await database.changeByFilter({ filter: this.#filter(), change, limit, dryRun: false })
      return undefined
    }
    if (choice < 0.35) return await this.#insert(database, name)
    if (choice < 0.6) {
      const put = await database.put(id, this.#point(name), this.#condition())
      this.#changed = id
      return put
    }
    if (choice < 0.8) {
      const expiresAtUs = this.#pick(undefined, null, this.#soonUs())
      const patch = {
        content: name,
        set: new Map([['n', this.#n()]]),
        ...(expiresAtUs === undefined ? {} : { expiresAtUs }),
      }
      return await database.patch(id, patch, this.#condition())
    }
    await database.remove(id)
    return undefined
  }

  async #insert(database: ClusterNode['database'], name: string): Promise<unknown> {
    const isKeyed = this.#random() < 0.3
    const key = `key ${Math.floor(this.#random() * keysInUse)}`
    const body = (isKeyed && this.#random() < 0.7 ? this.#bodies.get(key) : undefined) ?? this.#insertBody()
    if (isKeyed) this.#bodies.set(key, body)
    const { onError, items } = body
    const points = items.map((item): NewPoint => ({ ...this.#point(name), ...item }))
    // The content names the request, so it is no part of what is compared.
    const identity = { keyHash: hashOf(key), bodyHash: hashOf(JSON.stringify(body)) }
    const inserted = await database.insert(points, { onError, ...(isKeyed ? { identity } : {}) })
    // Later operations can also use these ids, even on nodes that have not applied the insert yet.
    for (const id of inserted.ids) if (id !== null && !this.#ids.includes(id)) this.#ids.push(id)
    this.#ids.splice(0, this.#ids.length - idsInUse)
    return inserted.ids
  }

  #insertBody(): InsertBody {
    const ids = this.#ids.filter(() => this.#random() < 0.1)
    const withIds = ids.map((id) => ({ id, onConflict: this.#pick('error', 'replace', 'skip')! }) as const)
    // One of all or nothing that depends on several partitions is refused.
    const isWide = new Set(ids.map(partitionOf)).size > 1
    const mustContinue = isWide && withIds.some(({ onConflict }) => onConflict === 'error')
    const onError = this.#pick('abort', 'continue')!
    const again = this.#random() < 0.15 ? withIds.slice(-1) : []
    const items = withIds.length === 0 ? [{}] : [...withIds, ...again]
    return { onError: mustContinue ? 'continue' : onError, items }
  }

  #point(content: string): NewPoint {
    const expiresAtUs = this.#random() < 0.3 ? this.#soonUs() : undefined
    return {
      vector: Float32Array.of(this.#random(), this.#random(), this.#random()),
      payload: {
        contentType: 'Text',
        content,
        attributes: new Map([['n', this.#n()]]),
        ...(expiresAtUs === undefined ? {} : { expiresAtUs }),
      },
    }
  }

  /** A time so near that clocks a second apart disagree about whether it has passed. */
  #soonUs(): number {
    return this.#nowUs + Math.floor(this.#random() * 2_000_000)
  }

  #condition(): Precondition | undefined {
    const version = this.#reads.at(-1)?.version ?? 65_536
    return this.#pick<Precondition | undefined>(
      ...[undefined, undefined, { kind: 'absent' as const }, { kind: 'version' as const, version }],
      { kind: 'filter', filter: this.#filter() },
    )
  }

  #filter(): Filter {
    return { kind: 'condition', path: 'n', test: { op: 'range', bounds: { gte: this.#n() } } }
  }

  #n(): number {
    return Math.floor(this.#random() * 10)
  }

  #pick<Item>(...items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.#random() * items.length)]
  }

  /** If nodes have a part of the points each, half of the ids share a partition. */
  #newId(): string {
    const bytes = Uint8Array.from({ length: 16 }, () => Math.floor(this.#random() * 256))
    if (this.#shards !== undefined && this.#random() < 0.5) bytes[0] = 7
    return idFromBytes(bytes)
  }

  /** Rethrows every error that no injected fault explains. */
  #checkUnknown(error: unknown): void {
    const isExplained = error instanceof DatabaseError && unknown.has(error.reason)
    if (!isExplained) throw error
  }
}

const decided: ReadonlySet<string> = new Set([
  'already_exists',
  'precondition_failed',
  'not_found',
  'key_reused',
  // An id that is given twice.
  'invalid_argument',
])

const unknown: ReadonlySet<string> = new Set(['not_ready', 'shutting_down', 'cancelled', 'internal'])

function checkRead(model: ClusterModel, { id, version, what, from, to }: Read): void {
  assert.ok(
    model.couldBe(id, version, from, to),
    `a ${what} read of ${id} saw version ${version}, which it had nowhere between ${from} and ${to}: ${model.describe(id, from, to)}`,
  )
}

async function versionsListed(database: Pick<Database, 'list'>): Promise<[string, number][]> {
  const { points } = await database.list({ limit: 10_000, include: onlyVersion })
  return points.map(({ id, version }) => [id, version!])
}

async function versionsSearched(database: Pick<Database, 'search'>): Promise<[string, number][]> {
  const query = { vector: Float32Array.of(0.5, 0.5, 0.5), limit: 10_000, ef: 16, exact: true } as const
  const { ids, details } = await database.search([{ ...query, metric: 'Euclidean', include: onlyVersion }])
  return ids.strings()[0]!.map((id, at) => [id, details[0]![at]!.version!])
}

const onlyVersion = { distance: false, payload: false, version: true, vector: false } as const

/** The listed points in these partitions. */
function within(list: readonly Listed[], held: PartitionSet): readonly Listed[] {
  return list.filter(([id]) => held.has(partitionOf(id)))
}

function hashOf(text: string): Uint8Array {
  return createHash('sha256').update(text).digest().subarray(0, 16)
}

/** A point: its id, and everything else as text. */
type Listed = readonly [string, string]

async function listed({ main }: RunningNode): Promise<readonly Listed[]> {
  const include = { distance: false, payload: true, version: true, vector: true }
  const { points } = await main.list({ limit: 10_000, include })
  return points.map(({ id, version, vector, payload }) => [
    id,
    JSON.stringify([version, [...(vector ?? [])], payload?.content, payload?.expiresAtUs]),
  ])
}

async function stored(points: Pick<Database, 'list'>): Promise<ReadonlyMap<string, object>> {
  const include = { distance: false, payload: true, version: true, vector: false }
  const page = await points.list({ limit: 10_000, include })
  return new Map(page.points.map(({ id, version, payload }) => [id, { version, content: payload?.content }]))
}
