import { PartitionSet } from '../base/partitions.ts'
import type { Collection } from '../collections/collection.ts'
import type { PointsOnNodes } from '../points/database.ts'
import { HeldPartitions } from '../write/replica.ts'
import { type CoverPart, OwnedPlacement, type OwnedPlacementOptions } from './reads/placement.ts'
import { foundParts, Scatter } from './reads/scatter.ts'
import {
  type CountingNode,
  countOnNodes,
  ScatteredReads,
  type ScatteredReadsOptions,
} from './reads/scattered-reads.ts'
import type { Peers } from './requests.ts'
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
  readonly statsMs?: number | undefined
}

/** Where the partitions are, and the reads that need other nodes. Main thread only. */
export class NodeShards {
  readonly #options: NodeShardsOptions
  readonly placement: OwnedPlacement
  readonly scatter: Scatter
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
    this.placement = new OwnedPlacement({ ...options, held: () => this.partitions.now })
    this.scatter = new Scatter({ placement: this.placement, self: options.self, onHedge })
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
    if (this.placement.isWhole) return undefined
    return new ScatteredReads({
      ...read,
      self,
      peers,
      statsMs,
      scatter: this.scatter,
      placement: this.placement,
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
    if (this.placement.isWhole) return undefined
    const options = { self, node, peers, placement: this.placement, statsMs, onPosition: this.#noteSeen }
    return countOnNodes(options, question, signal)
  }

  readonly #noteSeen = (position: number): void => {
    this.#seen = Math.max(this.#seen, position)
  }

  /** Makes a snapshot of a collection together with other nodes; undefined while this node holds all of it. */
  async snapshotOf(
    asked: Pick<MergedSnapshotOptions, 'collection' | 'cut' | 'since' | 'signal' | 'sender'>,
  ): Promise<MergedSnapshot | undefined> {
    const { self, peers } = this.#options
    const placement = this.placement
    if (placement.isWhole) return undefined
    const all = PartitionSet.all()
    const cover = (avoid: ReadonlySet<string>): Promise<readonly CoverPart[]> =>
      foundParts(() => placement.cover(all, avoid), asked.signal)
    return await openMergedSnapshot({ ...asked, self, peers, cover })
  }
}
