import type { Logger } from '../base/log.ts'
import type { CommitLog, SharedDocuments } from './commit-log.ts'
import { fromJson, toJson } from './json-documents.ts'
import { setMemberState } from './members.ts'
import { pause } from './pause.ts'
import { replicasNote, withEntered } from './places.ts'
import { recordsMax } from './recent-changes.ts'
import { chunkSpanMax } from './record-frame.ts'
import { changeTopology, type Member, type MemberState, readTopology, type Topology } from './topology.ts'

/** What a node says of itself, again and again. */
export interface Announcement extends Omit<Member, 'state'> {
  readonly version: string
  /** Host and port for other nodes; absent where it has no link. */
  readonly peer?: string
  readonly isReady: boolean
  /** Whether others can fetch what it holds: while it is drained, too. Absent in what earlier versions say: as `isReady`. */
  readonly serves?: boolean
  /** Whether other nodes can ask it: while it is drained and while the log is lost, too. Absent where it has no link. */
  readonly answers?: boolean
  /** Of the topology that it acts on; absent where it has no link. */
  readonly generation?: number
  /** The node that it is getting partitions from now. */
  readonly takesFrom?: string
  /** All records up to here are applied. */
  readonly position: number
  /** All records up to here are on the node's own disk. */
  readonly floor: number
  /** Names the log, where that is lost as far as the node knows: others have to stop, too. */
  readonly lostLog?: string
}

export interface MembershipOptions {
  readonly log: CommitLog
  readonly documents: SharedDocuments
  readonly node: string
  readonly describe: () => Announcement
  readonly logger: Logger
  /** Nodes that have each point; absent: all, or as the cluster was founded. */
  readonly replicas?: number | undefined
  /** Whether other nodes can be asked; absent: not. */
  readonly hasLink?: boolean | undefined
  /** Whether this node can be the first one; absent: it can. */
  readonly mayFound?: boolean | undefined
  /** Called when others have changed what state this node is in. */
  readonly onState?: ((state: MemberState | undefined) => void) | undefined
  readonly announceMs?: number
  readonly trimMs?: number
}

/**
 * A node's place among the others. It enters itself in the topology, says that it is there, and trims the log below what
 * all members have on disk: a member that is away keeps what it needs to come back, until it is removed.
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
    // Before others can trim: what this node has not yet on disk is kept from now on.
    await writeFloor(documents, node, floor)
    await changeTopology(documents, (topology) => withEntered(topology, entry))
    membership.#running = Promise.all([
      membership.#repeat(announceMs, 'a node could not announce itself', () => membership.#announce()),
      membership.#repeat(trimMs, 'the log could not be trimmed', () => membership.#trim()),
    ])
    return membership
  }

  /** Says that this node joins, or that it has joined; unless it is drained meanwhile. */
  async setJoining(isJoining: boolean): Promise<void> {
    const { documents, node } = this.#options
    await setMemberState(documents, node, isJoining ? 'joining' : undefined, (before) =>
      isJoining ? before !== 'draining' : before === 'joining' || before === 'refetching',
    )
  }

  async topology(): Promise<Topology> {
    return (await readTopology(this.#options.documents)).topology
  }

  /** What the nodes that are there have said last. */
  async announced(): Promise<ReadonlyMap<string, Announcement>> {
    const announced = await this.#options.documents.announced()
    return new Map([...announced].map(([node, value]) => [node, fromJson<Announcement>(value)]))
  }

  async close(): Promise<void> {
    this.#closed.abort()
    await this.#running
  }

  async #announce(): Promise<void> {
    const { documents, node, describe, onState } = this.#options
    await documents.announce(node, toJson(describe()))
    const { state } = (await this.topology()).members[node] ?? {}
    if (state === this.#state) return
    this.#state = state
    onState?.(state)
  }

  async #trim(): Promise<void> {
    const { documents, log, node, describe } = this.#options
    await writeFloor(documents, node, describe().floor)
    const { members } = await this.topology()
    // A topology that was lost says nothing of what others need.
    if (!Object.hasOwn(members, node)) return
    const floors = await Promise.all(Object.keys(members).map((name) => readFloor(documents, name)))
    // A node that starts may read so many records once more, and a commit may need chunks that are so far below.
    const below = Math.min(...floors) - recordsMax - chunkSpanMax
    const { first } = await log.bounds()
    if (below > first) await log.trim(below)
  }

  async #repeat(everyMs: number, failure: string, run: () => Promise<void>): Promise<void> {
    const { signal } = this.#closed
    while (!signal.aborted) {
      // Without log servers nothing is said and nothing is trimmed: later.
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

/** Names of documents have few characters. */
function floorDocument(node: string): string {
  return `floor.${Buffer.from(node).toString('base64url')}`
}
