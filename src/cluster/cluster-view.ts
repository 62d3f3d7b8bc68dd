import type { LogStatus, NodePartitions, NodeStatus, PartitionsStatus } from '../base/cluster-status.ts'
import type { CommitLog } from './commit-log.ts'
import type { Announcement, Membership } from './membership.ts'
import { movesOf, shareOf, surplusOf } from './ownership.ts'
import { noTopology, type Topology } from './topology.ts'

/**
 * What a node knows of its cluster: the log, the topology, and what the other nodes say of themselves. Read again about once
 * a second; without an answer of the log servers everything is as it was.
 */
export class ClusterView {
  #topology: Topology = noTopology
  #announced: ReadonlyMap<string, Announcement> = new Map()
  /** Of the log, as far as is known. */
  #last = 0

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

  /** Where a node is reached over the link; undefined where it says nothing. */
  peerAddressOf(node: string): string | undefined {
    return this.#announced.get(node)?.peer
  }

  /** This node has read or changed the topology itself. */
  noteTopology(topology: Topology): void {
    if (topology.generation > this.#topology.generation) this.#topology = topology
  }

  async refresh(log: CommitLog, membership: Membership | undefined): Promise<void> {
    this.#last = (await log.bounds().catch(() => undefined))?.last ?? this.#last
    this.#announced = (await membership?.announced().catch(() => undefined)) ?? this.#announced
    const topology = await membership?.topology().catch(() => undefined)
    if (topology !== undefined) this.noteTopology(topology)
  }
}

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
  const without = owners.filter((nodes) => !nodes.some((node) => announced.get(node)?.answers === true))
  return {
    replicas: ring.replicas,
    to_come: movesOf(ownership).length,
    to_go: surplusOf(ownership),
    without_node: without.length,
  }
}
