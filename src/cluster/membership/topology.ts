import type { NodeState } from '../../base/cluster-status.ts'
import { DatabaseError } from '../../base/errors.ts'
import { partitionCount } from '../../base/partitions.ts'
import type { SharedDocuments } from '../log/commit-log.ts'
import { type Ring, ringOf } from './ring.ts'

/** The members of the cluster by name, and who owns which partitions. It changes by compare-and-set only. */
export interface Topology {
  /** Counts the changes. */
  readonly generation: number
  readonly members: Readonly<Record<string, Member>>
  readonly ownership: Ownership
  /** The DIMENSION of the first node, which all must have: it decides which points are refused. Null: not set. */
  readonly dimension: number | null
}

/**
 * Which nodes have which partitions, and which nodes should have them. The two differ while partitions move:
 *
 *   the ring changes ─> a node copies a partition from an owner ─> it becomes an owner ─> a surplus owner leaves
 *
 * Only the functions in ownership.ts derive one value of this kind from another. So at every moment each partition has either
 * all owners that it had, or all owners that it should have.
 */
export interface Ownership {
  /** The owners that partitions should have. */
  readonly ring: Ring
  /** By partition, the nodes that have all of its points, sorted by name. */
  readonly owners: readonly (readonly string[])[]
}

/**
 * Nodes that hold each point, unless the first node says otherwise: one may fail without a hole in the copies, and in a
 * cluster of up to three nodes every node has all points.
 */
const usualReplicas = 3

/** The topology of a cluster that no node has entered. */
export const noTopology: Topology = {
  generation: 0,
  members: {},
  dimension: null,
  ownership: {
    ring: ringOf([], usualReplicas),
    owners: Array.from({ length: partitionCount }, () => []),
  },
}

export interface Member {
  readonly zone: string
  readonly address: string
  /** Absent: the member takes part in everything. */
  readonly state?: MemberState | undefined
}

/**
 * What an operator wants of a member. `draining`: it takes no more clients and gives up its partitions; `refetching`: it
 * replaces its data. Other members set `away` until it is back, since they copy its partitions meanwhile, and
 * `awayRefetching` if it still has to replace its data then.
 */
export type MemberState = 'draining' | 'refetching' | 'away' | 'awayRefetching'

/** What a node announces about itself, again and again. */
export interface Announcement extends Omit<Member, 'state'> {
  /** Differs between the processes that have run as this node. */
  readonly run?: string
  readonly version: string
  readonly state: NodeState
  readonly isReady: boolean
  /** Whether other nodes can ask it; also while it is drained, and while the log is lost. */
  readonly answers: boolean
  /** Whether something keeps it from applying the log, such as a full disk: a copy of it could soon be too old. */
  readonly hasFault?: boolean
  /** The generation of the topology that it acts on. */
  readonly generation: number
  /** The node that it is receiving partitions from. */
  readonly takesFrom?: string
  /** All records up to here are applied. */
  readonly position: number
  /** The short id of the log, if the node knows that it is lost: other nodes have to stop, too. */
  readonly lostLog?: string
}

/** Whether a node answers and applies the log: then others can copy from it. */
export function isWhole({ answers, lostLog }: Announcement): boolean {
  return answers && lostLog === undefined
}

/**
 * Writes the next topology, and retries when another node was faster. An unchanged topology is not written.
 *
 * @returns the topology after the change
 */
export async function changeTopology(
  documents: SharedDocuments,
  change: (topology: Topology) => Topology,
): Promise<Topology> {
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const { topology, revision } = await readTopology(documents)
    const next = change(topology)
    if (next === topology) return topology
    if ((await documents.put(topologyDocument, toJson(next), revision)) !== undefined) return next
  }
  throw new DatabaseError('not_ready', 'other nodes keep changing the topology')
}

export async function readTopology(
  documents: Pick<SharedDocuments, 'get'>,
): Promise<{ readonly topology: Topology; readonly revision: number }> {
  const document = await documents.get(topologyDocument)
  if (document === undefined) return { topology: noTopology, revision: 0 }
  return { topology: fromJson(document.value), revision: document.revision }
}

/** Returns a member by its name, which may be any text, such as `constructor`. */
export function memberOf({ members }: Topology, node: string): Member | undefined {
  return Object.hasOwn(members, node) ? members[node] : undefined
}

export function withMember(topology: Topology, node: string, member: Member): Topology {
  const before = memberOf(topology, node)
  if (before?.zone === member.zone && before.address === member.address) return topology
  const { state } = before ?? {}
  const after = state === undefined ? member : { ...member, state }
  return { ...topology, generation: topology.generation + 1, members: { ...topology.members, [node]: after } }
}

const topologyDocument = 'topology'
const attemptsMax = 100

/** A value as the bytes of a shared document. */
export function toJson(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}

/** A value from the bytes of a shared document. */
export function fromJson<Value>(bytes: Uint8Array): Value {
  return JSON.parse(Buffer.from(bytes).toString()) as Value
}

/** What the live nodes have announced, by name. */
export async function announcedIn(
  documents: Pick<SharedDocuments, 'announced'>,
): Promise<ReadonlyMap<string, Announcement>> {
  const announced = await documents.announced()
  return new Map([...announced].map(([node, value]) => [node, fromJson<Announcement>(value)]))
}
