import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { CommitLog, SharedDocuments } from './commit-log.ts'
import type { Ownership } from './ownership.ts'
import { pause } from './pause.ts'
import { chunkSpanMax } from './record-frame.ts'

/** Who is in the cluster, by name. Changed by compare-and-set only. */
export interface Topology {
  /** Counts the changes. */
  readonly generation: number
  readonly members: Readonly<Record<string, Member>>
  /** Absent: all members have all points. */
  readonly ownership?: Ownership | undefined
}

export interface Member {
  readonly zone: string
  readonly address: string
  /** Absent for one that takes part in everything. */
  readonly state?: MemberState | undefined
}

/**
 * `joining`: it fetches what it has to hold; `draining`: it takes no more clients; `refetching`: it is to fetch everything
 * anew, and becomes `joining`.
 */
export type MemberState = 'joining' | 'draining' | 'refetching'

/** What a node says of itself, again and again. */
export interface Announcement extends Omit<Member, 'state'> {
  readonly version: string
  /** Host and port for other nodes; absent where it has no link. */
  readonly peer?: string
  readonly isReady: boolean
  /** All records up to here are applied. */
  readonly position: number
  /** All records up to here are on the node's own disk. */
  readonly floor: number
}

export interface MembershipOptions {
  readonly log: CommitLog
  readonly documents: SharedDocuments
  readonly node: string
  readonly describe: () => Announcement
  readonly logger: Logger
  /** Nodes that have each point; absent: all. */
  readonly replicas?: number | undefined
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

  /** @throws Error when the node would be one more than have each point */
  static async join(options: MembershipOptions): Promise<Membership> {
    const membership = new Membership(options)
    const { documents, node, describe, replicas, announceMs = 1_000, trimMs = 30_000 } = options
    const { zone, address, floor } = describe()
    checkReplicas(withMember(await membership.topology(), node, { zone, address }), replicas)
    // Before others can trim: what this node has not yet on disk is kept from now on.
    await writeFloor(documents, node, floor)
    await changeTopology(documents, (topology) =>
      checkReplicas(withMember(topology, node, { zone, address }), replicas),
    )
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
    const floors = await Promise.all(Object.keys(members).map((name) => readFloor(documents, name)))
    // A commit may still need chunks that are this far below.
    const below = Math.min(...floors) - chunkSpanMax
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

/**
 * Takes a node out of the cluster: the log is not kept for it any more.
 *
 * @returns whether it was a member
 */
export async function removeMember(documents: SharedDocuments, node: string): Promise<boolean> {
  const before = await readTopology(documents)
  if (!Object.hasOwn(before.topology.members, node)) return false
  await changeTopology(documents, (topology) => withoutMember(topology, node))
  return true
}

/**
 * Sets the state of a member.
 *
 * @param isAllowed whether it may come after the state before
 * @returns whether the node is a member
 */
export async function setMemberState(
  documents: SharedDocuments,
  node: string,
  state: MemberState | undefined,
  isAllowed: (before: MemberState | undefined) => boolean = () => true,
): Promise<boolean> {
  let isMember = false
  await changeTopology(documents, (topology) => {
    const before = topology.members[node]
    isMember = before !== undefined
    if (before === undefined || before.state === state || !isAllowed(before.state)) return topology
    const { zone, address } = before
    const member = { zone, address, ...(state === undefined ? {} : { state }) }
    return {
      ...topology,
      generation: topology.generation + 1,
      members: { ...topology.members, [node]: member },
    }
  })
  return isMember
}

/** Writes the next topology, again when another node was faster; a change that changes nothing is not written. */
async function changeTopology(
  documents: SharedDocuments,
  change: (topology: Topology) => Topology,
): Promise<void> {
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const { topology, revision } = await readTopology(documents)
    const next = change(topology)
    if (next === topology) return
    if ((await documents.put(topologyDocument, toJson(next), revision)) !== undefined) return
  }
  throw new DatabaseError('not_ready', 'other nodes keep changing the topology')
}

/** The members of a cluster, for a node that need not be one. */
export async function readMembers(documents: SharedDocuments): Promise<Topology> {
  return (await readTopology(documents)).topology
}

async function readTopology(
  documents: SharedDocuments,
): Promise<{ readonly topology: Topology; readonly revision: number }> {
  const document = await documents.get(topologyDocument)
  if (document === undefined) return { topology: { generation: 0, members: {} }, revision: 0 }
  return { topology: fromJson<Topology>(document.value), revision: document.revision }
}

function withMember(topology: Topology, node: string, member: Member): Topology {
  const before = topology.members[node]
  if (before?.zone === member.zone && before.address === member.address) return topology
  const { state } = before ?? {}
  const after = state === undefined ? member : { ...member, state }
  return { ...topology, generation: topology.generation + 1, members: { ...topology.members, [node]: after } }
}

/**
 * Every node has all points: with fewer replicas than nodes, some would have to have a part of them.
 *
 * @throws Error
 */
function checkReplicas(topology: Topology, replicas: number | undefined): Topology {
  const nodes = Object.keys(topology.members).length
  if (replicas === undefined || nodes <= replicas) return topology
  throw new Error(
    `CLUSTER_REPLICAS is ${replicas}, and the cluster would have ${nodes} nodes: nodes with a part of the points each are not supported yet, so leave it out or raise it`,
  )
}

function withoutMember(topology: Topology, node: string): Topology {
  const { [node]: gone, ...members } = topology.members
  return gone === undefined ? topology : { ...topology, generation: topology.generation + 1, members }
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

const topologyDocument = 'topology'

/** Names of documents have few characters. */
function floorDocument(node: string): string {
  return `floor.${Buffer.from(node).toString('base64url')}`
}

const attemptsMax = 100

function toJson(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}

function fromJson<Value>(bytes: Uint8Array): Value {
  return JSON.parse(Buffer.from(bytes).toString()) as Value
}
