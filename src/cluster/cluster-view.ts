import type { LogStatus, NodePartitions, NodeStatus, PartitionsStatus } from '../base/cluster-status.ts'
import type { CommitLog } from './commit-log.ts'
import type { Announcement, Membership } from './membership.ts'
import { movesOf, shareOf, surplusOf } from './ownership.ts'
import { ownersIn } from './ring.ts'
import { noTopology, type Topology } from './topology.ts'

/**
 * What a node knows of its cluster: the log, the topology, and what the other nodes say of themselves. Read again about once
 * a second; without an answer of the log servers everything is as it was.
 */
export class ClusterView {
  readonly #self: string
  readonly #nowMs: () => number
  #topology: Topology = noTopology
  #announced: ReadonlyMap<string, Announcement> = new Map()
  /** The same, with nodes of which the log servers may have forgotten what they have said. */
  #known: ReadonlyMap<string, Announcement> = new Map()
  /** Until then, a node that says nothing may not have come to it. */
  #unsureUntilMs = 0
  /** Of the log, as far as is known. */
  #last = 0

  /** @param self this node, which says of itself that it is there, too */
  constructor(self: string, nowMs: () => number = () => performance.now()) {
    this.#self = self
    this.#nowMs = nowMs
  }

  get topology(): Topology {
    return this.#topology
  }

  /** What the nodes that are there have said last. */
  get announced(): ReadonlyMap<string, Announcement> {
    return this.#announced
  }

  /** The last position of the log. */
  get last(): number {
    return this.#last
  }

  /**
   * Whether another node can be asked. What nodes say is in the memory of the log servers: after all of these have started again,
   * nodes are asked as before until they have had the time to say it again.
   */
  canBeAsked(node: string): boolean {
    return this.#known.get(node)?.answers === true
  }

  /** Where a node is reached over the link; undefined where it says nothing. */
  peerAddressOf(node: string): string | undefined {
    return this.#known.get(node)?.peer
  }

  /** This node has read or changed the topology itself. */
  noteTopology(topology: Topology): void {
    if (topology.generation > this.#topology.generation) this.#topology = topology
  }

  async refresh(
    log: Pick<CommitLog, 'bounds'>,
    membership: Pick<Membership, 'announced' | 'topology'> | undefined,
  ): Promise<void> {
    this.#last = (await log.bounds().catch(() => undefined))?.last ?? this.#last
    this.#noteAnnounced(await membership?.announced().catch(() => undefined))
    const topology = await membership?.topology().catch(() => undefined)
    if (topology !== undefined) this.noteTopology(topology)
  }

  /** @param said undefined without an answer */
  #noteAnnounced(said: ReadonlyMap<string, Announcement> | undefined): void {
    const nowMs = this.#nowMs()
    // Where what this node says is missing, so may be what the others say.
    if (!said?.has(this.#self)) this.#unsureUntilMs = nowMs + sayingMs
    if (said === undefined) return
    this.#announced = said
    this.#known = nowMs < this.#unsureUntilMs ? new Map([...this.#known, ...said]) : said
  }
}

/** A node may be waiting for a log server that has gone, before it says again that it is there. */
const sayingMs = 15_000

/** The log as operators see it; undefined while the servers do not answer. */
export async function logStatus(log: CommitLog | undefined): Promise<LogStatus | undefined> {
  const bounds = await log?.bounds().catch(() => undefined)
  if (bounds === undefined) return undefined
  const { first, last, bytes, bytesMax } = bounds
  return { first, last, bytes, bytes_max: bytesMax }
}

/** All members, and nodes that are there, as operators see them. */
export function nodeStatuses(
  topology: Topology,
  announced: ReadonlyMap<string, Announcement>,
): readonly NodeStatus[] {
  const names = new Set([...Object.keys(topology.members), ...announced.keys()])
  return [...names].sort().map((name) => {
    const said = announced.get(name)
    const { zone, address } = said ?? topology.members[name]!
    const is = { is_there: said !== undefined, is_ready: said?.isReady ?? false }
    const { state } = topology.members[name] ?? {}
    const shown = { name, zone, address, ...is, ...(state && { state }) }
    const partitions = nodePartitions(topology, name, said)
    return {
      ...{ ...shown, ...(partitions && { partitions }) },
      ...(said && { position: said.position, version: said.version }),
    }
  })
}

function nodePartitions(
  { ownership }: Topology,
  node: string,
  said: Announcement | undefined,
): NodePartitions | undefined {
  if (ownership === undefined) return undefined
  const { takesFrom: from } = said ?? {}
  return { ...shareOf(ownership, node), ...(from === undefined ? {} : { from }) }
}

/** How far partitions are where they should be; undefined where every node has all points. */
export function partitionsStatus(
  { ownership }: Topology,
  announced: ReadonlyMap<string, Announcement>,
): PartitionsStatus | undefined {
  if (ownership === undefined) return undefined
  const { ring, owners } = ownership
  const wanted = ownersIn(ring)
  const live = owners.map((nodes) => nodes.filter((node) => announced.get(node)?.answers === true).length)
  return {
    replicas: ring.replicas,
    to_come: movesOf(ownership).length,
    to_go: surplusOf(ownership),
    without_node: live.filter((count) => count === 0).length,
    under_replicated: live.filter((count, partition) => count < wanted[partition]!.length).length,
  }
}
