import type { Logger } from '../base/log.ts'
import { PartitionSet, partitionCount } from '../base/partitions.ts'
import { heldIn } from '../points/held-partitions.ts'
import type { Store } from '../storage/store.ts'
import type { ClusterView } from './cluster-view.ts'
import type { SharedDocuments } from './commit-log.ts'
import type { Sharding } from './node-shards.ts'
import { type Moving, type MovingNode, PartitionMover } from './partition-mover.ts'
import { pause } from './pause.ts'
import type { Peers } from './peers.ts'
import { withoutCopies } from './places.ts'
import { ownersIn } from './ring.ts'
import { changeTopology, readTopology } from './topology.ts'

export interface ServicePartsOptions {
  /** This node. */
  readonly self: string
  readonly view: ClusterView
  readonly documents: SharedDocuments
  readonly peers: Peers
  readonly logger: Logger
  /** Pause between two checks of the topology; short in tests. */
  readonly moveMs?: number | undefined
  /** Pause after a failed move; short in tests. */
  readonly againMs?: number | undefined
}

/** Lets the node of a service hold only some of the points, in a cluster that was founded for that. */
export class ServiceParts {
  readonly #options: ServicePartsOptions
  #mover: PartitionMover | undefined
  #moves: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined

  constructor(options: ServicePartsOptions) {
    this.#options = options
  }

  /** The current move to this node; undefined: none. */
  get moving(): Moving | undefined {
    return this.#mover?.moving
  }

  /** How many partitions this node should hold in addition to those that it holds; 0 when all nodes hold all points. */
  missing(held: PartitionSet = new PartitionSet()): number {
    const { view, self } = this.#options
    const { ownership } = view.topology
    if (ownership === undefined) return 0
    return ownersIn(ownership.ring).filter((nodes, partition) => nodes.includes(self) && !held.has(partition))
      .length
  }

  /** The sharding options for a node with this directory; undefined when all nodes hold all points. */
  async shardingOf(main: Pick<Store, 'applied' | 'sequence'>): Promise<Sharding | undefined> {
    const { view, documents, peers } = this.#options
    view.noteTopology((await readTopology(documents)).topology)
    if (view.topology.ownership === undefined) return undefined
    return {
      owners: () => view.topology.ownership!.owners,
      isLive: (node) => view.canBeAsked(node),
      held: this.#heldAtFirst(main),
      peers,
    }
  }

  /**
   * The partitions that a node holds at its start. The log fills a new directory with all partitions that its node
   * should hold.
   */
  #heldAtFirst(main: Pick<Store, 'applied' | 'sequence'>): PartitionSet {
    if (main.applied !== undefined || main.sequence > 0) return heldIn(main)
    const { view, self } = this.#options
    const { ring, owners } = view.topology.ownership!
    const wanted = ownersIn(ring)
    const held = new PartitionSet()
    for (let partition = 0; partition < partitionCount; partition += 1) {
      if (wanted[partition]!.includes(self) || owners[partition]!.includes(self)) held.add(partition)
    }
    return held
  }

  /**
   * Removes this node from all owners because its data are unusable: no node asks it from now on.
   *
   * @throws DatabaseError `precondition_failed` when no other node has some of its partitions
   */
  async leave(): Promise<void> {
    const { documents, view, self } = this.#options
    view.noteTopology(await changeTopology(documents, (topology) => withoutCopies(topology, self)))
  }

  /** Begins to move partitions to and from the node, if each node may hold only some of the points. */
  startMoves(node: MovingNode, signal: AbortSignal): void {
    if (this.#options.view.topology.ownership === undefined) return
    const stop = new AbortController()
    this.#moves = { stop, ended: this.move(node, AbortSignal.any([stop.signal, signal])) }
  }

  async stopMoves(): Promise<void> {
    this.#moves?.stop.abort()
    await this.#moves?.ended
    this.#moves = undefined
  }

  /** Moves partitions to and from the node as the topology says; resolves soon after the signal aborts. */
  async move(node: MovingNode, signal: AbortSignal): Promise<void> {
    const { logger, moveMs = usualMoveMs, againMs = usualAgainMs } = this.#options
    const mover = new PartitionMover({ ...this.#options, signal })
    this.#mover = mover
    let isFailing = false
    while (!signal.aborted) {
      try {
        const isBusy = await mover.step(node)
        isFailing = false
        if (isBusy) continue
      } catch (err) {
        if (signal.aborted) return
        // Warns once for a node that stays away.
        logger[isFailing ? 'debug' : 'warn']({ err }, 'partitions could not be moved: trying again')
        isFailing = true
        await pause(againMs, signal)
      }
      await pause(moveMs, signal)
    }
  }
}

const usualMoveMs = 250
const usualAgainMs = 1_000
