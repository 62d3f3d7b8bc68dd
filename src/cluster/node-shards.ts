import { cancellation, DatabaseError, lacksRoom } from '../base/errors.ts'
import { PartitionSet } from '../base/partitions.ts'
import type { Collection } from '../collections/collection.ts'
import type { PointsOnNodes } from '../points/database.ts'
import { HeldPartitions } from '../write/replica.ts'
import type { FoundPoints, LoggedInsert, LoggedRequest, LoggedResult } from '../write/requests.ts'
import { type FindingNode, type FoundQuestion, findPoints } from './joint-inserts.ts'
import { partitionsOf } from './log/request-codec.ts'
import {
  type Ask,
  type AskOwnersOptions,
  checkOwners,
  type Ended,
  gatherResult,
  type Outcome,
  type OutcomeQuestion,
  RecentOutcomes,
} from './outcomes.ts'
import {
  type CoverPart,
  OwnedPlacement,
  type OwnedPlacementOptions,
  type Placement,
} from './reads/placement.ts'
import { foundParts, Scatter, untilKnown } from './reads/scatter.ts'
import {
  type CountingNode,
  countOnNodes,
  ScatteredReads,
  type ScatteredReadsOptions,
} from './reads/scattered-reads.ts'
import type { PeerOperation, Peers } from './requests.ts'
import {
  type MergedSnapshot,
  type MergedSnapshotOptions,
  openMergedSnapshot,
} from './transfer/cluster-snapshot.ts'

/** Which partitions a node holds, and who holds the others. */
export interface Sharding extends Pick<OwnedPlacementOptions, 'owners' | 'isLive'> {
  /** The partitions that this node holds completely at its start. */
  readonly held: PartitionSet
  /** Sends requests to the other nodes. */
  readonly peers: Peers
}

interface NodeShardsOptions extends Sharding {
  /** This node. */
  readonly self: string
  /** How long other nodes are asked for the outcome of a write. */
  readonly timeoutMs: number
  readonly retryMs: number
  readonly statsMs?: number | undefined
  readonly holdMs?: number | undefined
  /** Aborts when the node is closed. */
  readonly stop: AbortSignal
}

/** What a node asks of other nodes, and keeps for them. Main thread only. */
export class NodeShards {
  readonly #options: NodeShardsOptions
  readonly #placement: OwnedPlacement
  readonly #scatter: Scatter
  readonly #recent = new RecentOutcomes()
  readonly #stalledOwners = new StalledOwners()
  /** The held partitions, for the node's collections. */
  readonly partitions: HeldPartitions
  /** The highest log position in an answer of another node. */
  #seen = 0
  #hedges = 0

  constructor(options: NodeShardsOptions) {
    this.#options = options
    this.partitions = new HeldPartitions(options.held)
    const onHedge = (): void => {
      this.#hedges += 1
    }
    this.#placement = new OwnedPlacement({ ...options, held: () => this.partitions.now })
    this.#scatter = new Scatter({ placement: this.#placement, self: options.self, onHedge })
  }

  /** The partitions that this node holds completely: a new object after each change. */
  get held(): PartitionSet {
    return this.partitions.now
  }

  get peers(): Peers {
    return this.#options.peers
  }

  /** The highest log position in an answer of another node. */
  get seen(): number {
    return this.#seen
  }

  /** How often a second node was asked because the first one was slow. */
  get hedges(): number {
    return this.#hedges
  }

  /** Reads a collection together with other nodes; undefined while this node holds all of it. */
  readsOf(
    read: Pick<ScatteredReadsOptions, 'node' | 'collection' | 'local' | 'position'> & {
      readonly local: Collection | ScatteredReadsOptions['local']
    },
  ): ScatteredReads | undefined {
    const { self, peers, statsMs } = this.#options
    if (this.#placement.isWhole) return undefined
    return new ScatteredReads({
      ...read,
      self,
      peers,
      statsMs,
      scatter: this.#scatter,
      placement: this.#placement,
      onPosition: this.#noteSeen,
    })
  }

  /** Counts the points of collections on all nodes; undefined while this node holds all of them. See `countOnNodes`. */
  countOnNodes(
    node: CountingNode,
    question: Parameters<typeof countOnNodes>[1],
    signal: AbortSignal | undefined,
  ): Promise<PointsOnNodes> | undefined {
    const { self, peers, statsMs } = this.#options
    if (this.#placement.isWhole) return undefined
    const options = { self, node, peers, placement: this.#placement, statsMs, onPosition: this.#noteSeen }
    return countOnNodes(options, question, signal)
  }

  readonly #noteSeen = (position: number): void => {
    this.#seen = Math.max(this.#seen, position)
  }

  /** Makes a snapshot of a collection together with other nodes; undefined while this node holds all of it. */
  async snapshotOf(
    asked: Pick<MergedSnapshotOptions, 'collection' | 'position' | 'signal' | 'sender'>,
  ): Promise<MergedSnapshot | undefined> {
    const { self, peers, holdMs } = this.#options
    const placement = this.#placement
    if (placement.isWhole) return undefined
    const all = PartitionSet.all()
    const cover = (avoid: ReadonlySet<string>): Promise<readonly CoverPart[]> =>
      foundParts(() => placement.cover(all, avoid), asked.signal)
    return await openMergedSnapshot({ ...asked, self, peers, cover, holdMs })
  }

  /**
   * Checks that live owners can apply a request.
   *
   * @param freesSpace whether owners whose disk or memory is full accept it, too
   * @throws DatabaseError when a partition of the request has no live owner, or only full ones
   */
  async check(request: LoggedRequest, freesSpace: boolean, signal: AbortSignal | undefined): Promise<void> {
    const partitions = partitionsOf(request)
    const hasOwners = (): boolean => this.#placement.cover(partitions, new Set()).missing.size === 0
    await untilKnown(hasOwners, signal)
    checkOwners(request, this.#placement)
    if (!freesSpace) this.#stalledOwners.check(request, this.#placement)
  }

  /** Keeps the outcome of a record here, for nodes that ask for it. */
  note(position: number, outcome: Outcome): void {
    this.#recent.add(position, outcome)
  }

  /**
   * Finds the outcome of a record, for a node that asks for it.
   *
   * @throws DatabaseError `not_ready` when another node has to be asked
   */
  find(question: OutcomeQuestion): Outcome {
    return this.#recent.find(question)
  }

  /** Makes the answer to a request that other nodes decide about, too. */
  async gather(request: LoggedRequest, own: Ended, caller: AbortSignal | undefined): Promise<LoggedResult> {
    try {
      return await gatherResult(request, own, this.#asking('outcome'), this.#until(caller))
    } catch (error) {
      if (caller?.aborted) throw cancellation(caller)
      throw error
    }
  }

  /**
   * Looks up the points of an insert, here and on other nodes.
   *
   * @throws DatabaseError `not_ready` when no owner answered
   */
  async findPoints(
    request: LoggedInsert,
    question: Pick<FoundQuestion, 'collection' | 'position'>,
    node: FindingNode,
    caller: AbortSignal | undefined,
  ): Promise<FoundPoints> {
    await this.check(request, false, caller)
    const found = await findPoints(request, question, node, this.#asking('found'), this.#until(caller))
    if (found !== undefined) return found
    if (caller?.aborted) throw cancellation(caller)
    throw new DatabaseError(
      'not_ready',
      'nothing was stored, because the nodes that hold the points do not answer: try again later',
    )
  }

  #asking(method: PeerOperation): AskOwnersOptions {
    const { self, peers, retryMs } = this.#options
    const ask: Ask = (node, question, signal) => peers.ask(node, method, question, { signal })
    const onFailure = (node: string, error: unknown): void => this.#stalledOwners.note(node, error)
    return { self, placement: this.#placement, ask, retryMs, onFailure }
  }

  /** Aborts with the caller, with this node, or when it takes too long. */
  #until(caller: AbortSignal | undefined): AbortSignal {
    const { timeoutMs, stop } = this.#options
    const ends = [AbortSignal.timeout(timeoutMs), stop]
    return AbortSignal.any(caller === undefined ? ends : [...ends, caller])
  }
}

/**
 * Nodes whose disk or memory is full, as they answered when they were asked for the outcome of a record. Writes that
 * only such nodes would have to store are refused for a moment: the log would accept them, but nobody could say when
 * they are applied.
 */
export class StalledOwners {
  readonly #nowMs: () => number
  readonly #stalls = new Map<string, { readonly error: DatabaseError; readonly untilMs: number }>()

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
  }

  /** Notes the error of a node that could not return the outcome of a record. */
  note(node: string, error: unknown): void {
    if (!lacksRoom(error)) return
    this.#stalls.set(node, { error, untilMs: this.#nowMs() + stallMs })
  }

  /** @throws the error of the first live owner of a partition of the request when all of them are full */
  check(request: LoggedRequest, placement: Placement): void {
    const nowMs = this.#nowMs()
    for (const [node, { untilMs }] of this.#stalls) if (untilMs <= nowMs) this.#stalls.delete(node)
    if (this.#stalls.size === 0) return
    for (const partition of partitionsOf(request)) {
      const owners = placement.owners(partition)
      const isFull = owners.length > 0 && owners.every((node) => this.#stalls.has(node))
      if (isFull) throw this.#stalls.get(owners[0]!)!.error
    }
  }
}

/** After this time, the next write is tried again. */
const stallMs = 1_000
