import { DatabaseError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { PartitionSet, partitionCount } from '../../base/partitions.ts'
import type { Store } from '../../storage/store.ts'
import { heldIn } from '../../write/replica.ts'
import type { ClusterNode } from '../cluster-node.ts'
import type { Sharding } from '../cluster-node-options.ts'
import type { SharedDocuments } from '../log/commit-log.ts'
import type { ClusterView } from '../membership/cluster-view.ts'
import { withOwnChanges, withoutCopies } from '../membership/ownership.ts'
import { ownersIn } from '../membership/ring.ts'
import {
  changeTopology,
  isWhole,
  type Ownership,
  readTopology,
  type Topology,
} from '../membership/topology.ts'
import { callBack, type Peers } from '../requests.ts'
import { pause } from '../waiting.ts'

/** A node, as far as partitions move to and from it. */
type MovingNode = Pick<ClusterNode, 'held' | 'lostLog' | 'takePartitions' | 'dropPartitions'>

interface PartitionMoverOptions {
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

/** A move to a node. */
interface Moving {
  readonly from: string
  readonly partitions: number
}

/**
 * Makes the node of a service hold the partitions that it should hold: those of its directory at first, and then those
 * of the topology, one step at a time:
 *
 *   should hold it, does not         ─> copies it from an owner
 *   should hold it, holds it         ─> enters itself as an owner, once another node has reached it
 *   should not hold it, is an owner  ─> stops being one, once all that should hold it are owners and answer
 *   should not hold it, holds it     ─> drops it, once every node has seen that it is no owner
 *
 * Each node does this for itself. The topology records the owners; it changes by compare-and-set only. A node that
 * dies in between continues from what it finds.
 */
export class PartitionMover {
  readonly #options: PartitionMoverOptions
  /** The generation of the topology since which this node is no owner, by partition. */
  readonly #gone = new Map<number, number>()
  #moving: Moving | undefined
  #moves: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined

  constructor(options: PartitionMoverOptions) {
    this.#options = options
  }

  /** The current move to this node; undefined: none. */
  get moving(): Moving | undefined {
    return this.#moving
  }

  /** The sharding options for a node with this directory. */
  async shardingOf(main: Pick<Store, 'applied' | 'sequence'>): Promise<Sharding> {
    const { view, documents, peers } = this.#options
    view.noteTopology((await readTopology(documents)).topology)
    return {
      owners: () => view.topology.ownership.owners,
      isLive: (node) => view.canBeAsked(node),
      hasFault: (node) => view.announced.get(node)?.hasFault === true,
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
    const { ring, owners } = view.topology.ownership
    const wanted = ownersIn(ring)
    const isOurs = (partition: number): boolean =>
      wanted[partition]!.includes(self) || owners[partition]!.includes(self)
    return PartitionSet.of([...PartitionSet.all()].filter(isOurs))
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

  /** Begins to move partitions to and from the node. */
  startMoves(node: MovingNode, signal: AbortSignal): void {
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
    this.#gone.clear()
    let isFailing = false
    while (!signal.aborted) {
      try {
        const isBusy = await this.#step(node, signal)
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

  /**
   * Does one step.
   *
   * @returns whether more can be done immediately
   * @throws DatabaseError when another node or the log servers do not answer: it is tried again later
   */
  async #step(node: MovingNode, signal: AbortSignal): Promise<boolean> {
    // While the log is lost, nothing moves: the next log begins with what each node holds.
    if (node.lostLog !== undefined) return false
    await this.#settle(node, this.#options.view.topology.ownership, signal)
    await this.#drop(node, signal)
    return await this.#take(node, signal)
  }

  /** Makes the topology match what this node holds. */
  async #settle(node: MovingNode, before: Ownership, signal: AbortSignal): Promise<void> {
    const { documents, view, self } = this.#options
    const change = (ownership: Ownership): Ownership =>
      withOwnChanges(
        ownership,
        self,
        (partition) => node.held.has(partition),
        (each) => this.#answers(each),
      )
    const after = change(before)
    if (after === before) return
    const isEntering = ({ owners }: Ownership): boolean =>
      owners.some((each, at) => each.includes(self) && !before.owners[at]!.includes(self))
    if (isEntering(after)) await this.#checkReached(signal)
    const topology = await changeTopology(documents, (each) => withOwnership(each, change))
    view.noteTopology(topology)
    const { owners } = topology.ownership
    for (let partition = 0; partition < partitionCount; partition += 1) {
      if (!owners[partition]!.includes(self) && before.owners[partition]!.includes(self)) {
        this.#gone.set(partition, topology.generation)
      }
    }
  }

  /**
   * An owner that nobody reaches would leave its partitions without an answer. One call back is enough, of this node
   * itself where there is no other.
   */
  async #checkReached(signal: AbortSignal): Promise<void> {
    const { self, view, peers } = this.#options
    const others = [...view.announced.keys()].filter((each) => each !== self && view.canBeAsked(each))
    let cause: unknown
    for (const node of others.length === 0 ? [self] : others) {
      try {
        await peers.ask(node, 'ping', callBack, { signal })
        return
      } catch (error) {
        signal.throwIfAborted()
        cause = error
      }
    }
    throw new DatabaseError(
      'not_ready',
      'no other node reaches this one, so it enters as an owner of nothing: the log servers must let it subscribe to its subject',
      { cause },
    )
  }

  async #drop(node: MovingNode, signal: AbortSignal): Promise<void> {
    const { view, self, logger } = this.#options
    const { generation, ownership } = view.topology
    const { ring, owners } = ownership
    const wanted = ownersIn(ring)
    const seen = this.#seenByAll()
    const gone = new PartitionSet()
    for (const partition of node.held) {
      if (wanted[partition]!.includes(self) || owners[partition]!.includes(self)) {
        this.#gone.delete(partition)
        continue
      }
      // After a restart, the generation is not known.
      const since = this.#gone.get(partition) ?? generation
      this.#gone.set(partition, since)
      if (seen >= since) gone.add(partition)
    }
    if (gone.size === 0) return
    await node.dropPartitions(gone, signal)
    for (const partition of gone) this.#gone.delete(partition)
    logger.info({ partitions: gone.size }, 'dropped partitions that other nodes hold now')
  }

  /** Copies some of the partitions that this node should hold from one node that holds them. */
  async #take(node: MovingNode, signal: AbortSignal): Promise<boolean> {
    const { view, self, logger } = this.#options
    const { ownership } = view.topology
    const wanted = ownersIn(ownership.ring)
    const sources = new Map<string, PartitionSet>()
    for (let partition = 0; partition < partitionCount; partition += 1) {
      if (node.held.has(partition) || !wanted[partition]!.includes(self)) continue
      const from = ownership.owners[partition]!.filter((each) => each !== self && this.#answers(each))
      if (from.length === 0) continue
      const source = from[partition % from.length]!
      const some = sources.get(source) ?? new PartitionSet()
      if (some.size < partitionsAtOnce) some.add(partition)
      sources.set(source, some)
    }
    const [first] = [...sources].sort(([, one], [, other]) => other.size - one.size)
    if (first === undefined) return false
    const [from, partitions] = first
    this.#moving = { from, partitions: partitions.size }
    try {
      await node.takePartitions(partitions, from, signal)
      logger.info({ from, partitions: partitions.size }, 'copied partitions from another node')
    } finally {
      this.#moving = undefined
    }
    return true
  }

  /** Whether a node answers and applies the log. */
  #answers(node: string): boolean {
    const { view, self } = this.#options
    const said = view.announced.get(node)
    return node === self || (said !== undefined && isWhole(said))
  }

  /** The generation of the topology that all live nodes have seen. */
  #seenByAll(): number {
    const { view, self } = this.#options
    const known = [...view.announced].flatMap(([name, { generation = 0 }]) =>
      name === self ? [] : [generation],
    )
    return Math.min(view.topology.generation, ...known)
  }
}

function withOwnership(topology: Topology, change: (ownership: Ownership) => Ownership): Topology {
  const ownership = change(topology.ownership)
  if (ownership === topology.ownership) return topology
  return { ...topology, generation: topology.generation + 1, ownership }
}

/** The limit lets other nodes use the first partitions before the last ones have arrived. */
const partitionsAtOnce = 32
const usualMoveMs = 250
const usualAgainMs = 1_000
