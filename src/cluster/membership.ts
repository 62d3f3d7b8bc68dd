import type { Logger } from '../base/log.ts'
import type { CommitLog, SharedDocuments } from './commit-log.ts'
import type { SettingsNote } from './deciding-settings.ts'
import { announcedIn, fromJson, toJson } from './json-documents.ts'
import { setMemberState } from './members.ts'
import { pause } from './pause.ts'
import { replicasNote, withEntered } from './places.ts'
import { recordsMax } from './recent-changes.ts'
import { chunkSpanMax } from './record-frame.ts'
import {
  changeTopology,
  type Member,
  type MemberState,
  memberOf,
  readTopology,
  type Topology,
} from './topology.ts'

/** What a node announces about itself, again and again. */
export interface Announcement extends Omit<Member, 'state'>, SettingsNote {
  readonly version: string
  /** Host and port for other nodes; absent without a link. */
  readonly peer?: string
  readonly isReady: boolean
  /**
   * Whether other nodes can fetch its data; also while it is drained. Earlier versions do not announce it: then as
   * `isReady`.
   */
  readonly serves?: boolean
  /** Whether other nodes can ask it; also while it is drained, and while the log is lost. Absent without a link. */
  readonly answers?: boolean
  /** The generation of the topology that it acts on; absent without a link. */
  readonly generation?: number
  /** The node that it is receiving partitions from. */
  readonly takesFrom?: string
  /** All records up to here are applied. */
  readonly position: number
  /** All records up to here are on the node's own disk. */
  readonly floor: number
  /** The short id of the log, if the node knows that it is lost: other nodes have to stop, too. */
  readonly lostLog?: string
}

export interface MembershipOptions {
  readonly log: CommitLog
  readonly documents: SharedDocuments
  readonly node: string
  readonly describe: () => Announcement
  readonly logger: Logger
  /** Nodes that hold each point; absent: all, or as the cluster was founded. */
  readonly replicas?: number | undefined
  /** Whether this node has a link to the others; absent: no. */
  readonly hasLink?: boolean | undefined
  /** Whether this node may be the first one; absent: yes. */
  readonly mayFound?: boolean | undefined
  /** Called when the topology has a new state for this node. */
  readonly onState?: ((state: MemberState | undefined) => void) | undefined
  readonly announceMs?: number
  readonly trimMs?: number
}

/**
 * A node's membership of its cluster. The node enters itself in the topology, announces itself, and trims the log
 * below what all members have on disk. For a member that is away, the log keeps what that member needs to return,
 * until it is removed.
 */
export class Membership {
  readonly #options: MembershipOptions
  readonly #closed = new AbortController()
  #running: Promise<unknown> = Promise.resolve()
  #state: MemberState | undefined

  private constructor(options: MembershipOptions) {
    this.#options = options
  }

  /** @throws Error when its settings do not fit the cluster */
  static async join(options: MembershipOptions): Promise<Membership> {
    const membership = new Membership(options)
    const { documents, node, describe, replicas, hasLink, mayFound } = options
    const { announceMs = 1_000, trimMs = 30_000 } = options
    const { zone, address, floor } = describe()
    const entry = {
      node,
      member: { zone, address },
      replicas,
      hasLink: hasLink ?? false,
      mayFound: mayFound ?? true,
    }
    const topology = await membership.topology()
    withEntered(topology, entry)
    const note = replicasNote(topology, replicas)
    if (note !== undefined) options.logger.warn(note)
    // Before others can trim: from now on the log keeps what this node does not have on disk yet.
    await writeFloor(documents, node, floor)
    await changeTopology(documents, (topology) => withEntered(topology, entry))
    membership.#running = Promise.all([
      membership.#repeat(announceMs, 'this node could not announce itself', () => membership.#announce()),
      membership.#repeat(trimMs, 'the log could not be trimmed', () => membership.#trim()),
    ])
    return membership
  }

  /** Marks this node as joining, or as joined, unless it is being drained. */
  async setJoining(isJoining: boolean): Promise<void> {
    const { documents, node } = this.#options
    await setMemberState(documents, node, isJoining ? 'joining' : undefined, (before) =>
      isJoining ? before !== 'draining' : before === 'joining' || before === 'refetching',
    )
  }

  async topology(): Promise<Topology> {
    return (await readTopology(this.#options.documents)).topology
  }

  /** The latest announcements of the live nodes. */
  async announced(): Promise<ReadonlyMap<string, Announcement>> {
    return await announcedIn<Announcement>(this.#options.documents)
  }

  async close(): Promise<void> {
    this.#closed.abort()
    await this.#running
  }

  async #announce(): Promise<void> {
    const { documents, node, describe, onState } = this.#options
    await documents.announce(node, toJson(describe()))
    const { state } = memberOf(await this.topology(), node) ?? {}
    if (state === this.#state) return
    this.#state = state
    onState?.(state)
  }

  async #trim(): Promise<void> {
    const { documents, log, node, describe } = this.#options
    await writeFloor(documents, node, describe().floor)
    const { members } = await this.topology()
    // A lost topology says nothing about what others need.
    if (!Object.hasOwn(members, node)) return
    const floors = await Promise.all(Object.keys(members).map((name) => readFloor(documents, name)))
    // A starting node may read up to `recordsMax` records again, and a commit may need chunks that are up to
    // `chunkSpanMax` below it.
    const below = Math.min(...floors) - recordsMax - chunkSpanMax
    const { first } = await log.bounds()
    if (below > first) await log.trim(below)
  }

  async #repeat(everyMs: number, failure: string, run: () => Promise<void>): Promise<void> {
    const { signal } = this.#closed
    while (!signal.aborted) {
      // While the log servers do not answer, this is simply tried again later.
      await run().catch((err: unknown) => this.#options.logger.debug({ err }, failure))
      await pause(everyMs, signal)
    }
  }
}

async function writeFloor(documents: SharedDocuments, node: string, floor: number): Promise<void> {
  const name = floorDocument(node)
  const before = await documents.get(name)
  const value = toJson(floor)
  if (before !== undefined && Buffer.from(before.value).equals(value)) return
  await documents.put(name, value, before?.revision ?? 0)
}

async function readFloor(documents: SharedDocuments, node: string): Promise<number> {
  const document = await documents.get(floorDocument(node))
  return document === undefined ? 0 : fromJson<number>(document.value)
}

/** Document names allow few characters, so the node's name is encoded. */
function floorDocument(node: string): string {
  return `floor.${Buffer.from(node).toString('base64url')}`
}
