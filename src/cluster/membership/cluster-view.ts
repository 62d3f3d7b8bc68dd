import type { LogStatus, NodePartitions, NodeStatus, PartitionsStatus } from '../../base/cluster-status.ts'
import type { CommitLog, LogBounds, SharedDocuments } from '../log/commit-log.ts'
import { movesOf, shareOf, surplusOf, whenAway } from './ownership.ts'
import { ownersIn } from './ring.ts'
import {
  type Announcement,
  announcedIn,
  memberOf,
  noTopology,
  readTopology,
  type Topology,
} from './topology.ts'

/**
 * What a node knows about its cluster: the log, the topology, and what the other nodes announce. It is refreshed
 * about once a second, and stays the same while the log servers do not answer.
 */
export class ClusterView {
  readonly #self: string
  readonly #nowMs: () => number
  #topology: Topology = noTopology
  #announced: ReadonlyMap<string, Announcement> = new Map()
  /** The same, plus nodes whose announcements the log servers may have lost. */
  #known: ReadonlyMap<string, Announcement> = new Map()
  /** Since when members were not heard, by name. */
  readonly #missingSince = new Map<string, number>()
  /** Until then, a node without an announcement may just not have announced itself again yet. */
  #unsureUntilMs = 0
  /** The log as the servers last described it. */
  #log: LogBounds | undefined
  /** When the log servers last accepted an announcement of this node, or this view was made. */
  #heardMs: number

  /** @param self this node, which also announces itself */
  constructor(self: string, nowMs: () => number = () => performance.now()) {
    this.#self = self
    this.#nowMs = nowMs
    this.#heardMs = nowMs()
  }

  get topology(): Topology {
    return this.#topology
  }

  /** The latest announcements of the live nodes. */
  get announced(): ReadonlyMap<string, Announcement> {
    return this.#announced
  }

  /** Whether the log servers have accepted nothing for so long that this node may be behind without knowing it. */
  get isCutOff(): boolean {
    return this.#nowMs() - this.#heardMs > silenceMs
  }

  /**
   * A member that was not heard for so long that others should have its partitions; undefined: none. One at a time: the
   * copies of many could fill the disks of those that are left. What such a member has still to receive itself does not
   * count, because it does not move.
   */
  get longAway(): string | undefined {
    const sinceMs = this.#nowMs() - awayMs
    const gone = [...this.#missingSince].flatMap(([name, since]) => {
      const member = memberOf(this.#topology, name)
      return since < sinceMs && member !== undefined && whenAway(member.state) !== member.state ? [name] : []
    })
    return movesOf(this.#topology.ownership).some(({ to }) => !gone.includes(to)) ? undefined : gone[0]
  }

  /** The log as the servers last described it. */
  get log(): LogBounds | undefined {
    return this.#log
  }

  /**
   * Whether another node can be asked. The log servers hold announcements in memory. After all of them have
   * restarted, nodes are still asked until they have had time to announce themselves again.
   */
  canBeAsked(node: string): boolean {
    return this.#known.get(node)?.answers === true
  }

  /** Takes a newer topology that this node has read or changed itself. */
  noteTopology(topology: Topology): void {
    if (topology.generation > this.#topology.generation) this.#topology = topology
  }

  async refresh(
    log: Pick<CommitLog, 'bounds'>,
    documents: Pick<SharedDocuments, 'announced' | 'get'>,
  ): Promise<void> {
    this.#log = (await log.bounds().catch(() => undefined)) ?? this.#log
    this.#noteAnnounced(await announcedIn(documents).catch(() => undefined))
    const read = await readTopology(documents).catch(() => undefined)
    if (read !== undefined) this.noteTopology(read.topology)
  }

  /** @param said undefined when the log servers did not answer */
  #noteAnnounced(said: ReadonlyMap<string, Announcement> | undefined): void {
    const nowMs = this.#nowMs()
    // If this node's own announcement is missing, those of others may be missing, too.
    if (!said?.has(this.#self)) this.#unsureUntilMs = nowMs + sayingMs
    if (said === undefined) {
      this.#missingSince.clear()
      return
    }
    this.#heardMs = nowMs
    this.#announced = said
    for (const name of Object.keys(this.#topology.members)) {
      if (said.has(name) || nowMs < this.#unsureUntilMs) this.#missingSince.delete(name)
      else if (!this.#missingSince.has(name)) this.#missingSince.set(name, nowMs)
    }
    this.#known = nowMs < this.#unsureUntilMs ? new Map([...this.#known, ...said]) : said
  }
}

/** How long a node may take to announce itself again: it may first wait for a log server that is gone. */
const sayingMs = 15_000
/** Longer than a machine takes to restart or an upgrade to be rolled out. */
const awayMs = 15 * 60_000
/** Announcements remain for some seconds in addition: longer than the servers take to elect a leader. */
const silenceMs = 5_000

/** The log as operators see it; undefined while the servers do not answer. */
export async function logStatus(log: CommitLog | undefined): Promise<LogStatus | undefined> {
  const bounds = await log?.bounds().catch(() => undefined)
  if (bounds === undefined) return undefined
  const { first, last, bytes, bytesMax, servers = [] } = bounds
  return { first, last, bytes, bytes_max: bytesMax, servers }
}

/** What is amiss with the servers of the log, for people. */
export function logServerNotes({ servers = [] }: Partial<Pick<LogBounds, 'servers'>>): readonly string[] {
  return servers.flatMap(({ name, is_current: isCurrent, is_offline: isOffline }) => {
    if (isOffline) return [`log server ${name} is away, or its JetStream is switched off`]
    if (isCurrent) return []
    // Its leader tells nothing more of a server that has switched off its JetStream, such as for a full disk.
    return [
      `log server ${name} does not have all of the log: if it stays so, look at its disk and restart it`,
    ]
  })
}

/** All members and all live nodes, as operators see them. */
export function nodeStatuses(
  topology: Topology,
  announced: ReadonlyMap<string, Announcement>,
): readonly NodeStatus[] {
  const names = new Set([...Object.keys(topology.members), ...announced.keys()])
  return [...names].sort().map((name) => {
    const said = announced.get(name)
    const { zone, address } = said ?? topology.members[name]!
    const is = { is_alive: said !== undefined, is_ready: said?.isReady ?? false }
    // An operator sees at once what was asked for.
    const isDrained = said?.state === 'serving' && memberOf(topology, name)?.state === 'draining'
    const state = isDrained ? 'draining' : said?.state
    const shown = { name, zone, address, ...is, ...(state && { state }) }
    return {
      ...shown,
      partitions: nodePartitions(topology, name, said),
      ...(said && { position: said.position, version: said.version }),
    }
  })
}

function nodePartitions(
  { ownership }: Topology,
  node: string,
  said: Announcement | undefined,
): NodePartitions {
  const { takesFrom: from } = said ?? {}
  return { ...shareOf(ownership, node), ...(from === undefined ? {} : { from }) }
}

/** How many partitions are not yet where they should be. */
export function partitionsStatus(
  { ownership }: Topology,
  announced: ReadonlyMap<string, Announcement>,
): PartitionsStatus {
  const { ring, owners } = ownership
  const wanted = ownersIn(ring)
  const live = owners.map((nodes) => nodes.filter((node) => announced.get(node)?.answers === true).length)
  return {
    replicas: ring.replicas,
    incoming: movesOf(ownership).length,
    surplus: surplusOf(ownership),
    unowned: live.filter((count) => count === 0).length,
    under_replicated: live.filter((count, partition) => count < wanted[partition]!.length).length,
  }
}
