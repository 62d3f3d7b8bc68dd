import { DatabaseError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import type { PartitionSet } from '../../base/partitions.ts'
import type { SharedDocuments } from '../log/commit-log.ts'
import { ownersIn, type RingNode, ringOf } from './ring.ts'
import {
  type Announcement,
  changeTopology,
  type Member,
  type MemberState,
  memberOf,
  type Ownership,
  type Topology,
  toJson,
  withMember,
} from './topology.ts'

/** A partition that a node should receive. */
interface Move {
  readonly partition: number
  readonly to: string
  /** Nodes that have it. */
  readonly from: readonly string[]
}

/** The ownership of a new cluster: nothing has to move. */
export function foundedOwnership(nodes: readonly RingNode[], replicas: number): Ownership {
  const ring = ringOf(nodes, replicas)
  return { ring, owners: ownersIn(ring).map(sorted) }
}

/** The moves that are left, partition by partition. */
export function movesOf({ ring, owners }: Ownership): readonly Move[] {
  return ownersIn(ring).flatMap((wanted, partition) => {
    const from = owners[partition]!
    return wanted.filter((node) => !from.includes(node)).map((to) => ({ partition, to, from }))
  })
}

/** Counts the copies of partitions that nodes have but should not have. */
export function surplusOf({ ring, owners }: Ownership): number {
  const surplus = ownersIn(ring).map((wanted, partition) =>
    wanted.length === 0 ? 0 : owners[partition]!.filter((node) => !wanted.includes(node)).length,
  )
  return surplus.reduce((sum, each) => sum + each, 0)
}

/** How many partitions a node has, and how many it should have. */
export function shareOf(
  { ring, owners }: Ownership,
  node: string,
): { readonly owned: number; readonly wanted: number } {
  const countIn = (lists: readonly (readonly string[])[]): number =>
    lists.filter((each) => each.includes(node)).length
  return { owned: countIn(owners), wanted: countIn(ownersIn(ring)) }
}

/** How many partitions a node should have in addition to those that it holds. */
export function missingOf({ ring }: Ownership, node: string, held: PartitionSet): number {
  return ownersIn(ring).filter((wanted, partition) => wanted.includes(node) && !held.has(partition)).length
}

/**
 * What a node changes about itself: it becomes an owner of what it should have and has, and stops being one of what it
 * should not have, once all that should have it are owners and answer.
 *
 * @param has whether the node has all points of a partition
 * @returns the same ownership where nothing changes
 */
export function withOwnChanges(
  ownership: Ownership,
  node: string,
  has: (partition: number) => boolean,
  answers: (node: string) => boolean,
): Ownership {
  const wanted = ownersIn(ownership.ring)
  const owners = ownership.owners.map((before, partition) => {
    const others = wanted[partition]!
    if (others.includes(node))
      return before.includes(node) || !has(partition) ? before : sorted([...before, node])
    const mayLeave = others.length > 0 && others.every((each) => before.includes(each) && answers(each))
    return mayLeave && before.includes(node) ? before.filter((each) => each !== node) : before
  })
  return owners.every((each, at) => each === ownership.owners[at]) ? ownership : { ...ownership, owners }
}

/**
 * Removes a node with everything it had.
 *
 * @throws DatabaseError `precondition_failed` when no other node has some of its partitions
 */
function withoutNode(ownership: Ownership, node: string): Ownership {
  const owners = ownership.owners.map((each) => each.filter((owner) => owner !== node))
  const lost = owners.filter((each) => each.length === 0).length
  if (lost === 0) return { ...ownership, owners }
  throw new DatabaseError(
    'precondition_failed',
    `${node} is the only node that has ${lost} of the partitions: start it, and drain it before it is removed`,
  )
}

function sorted(names: readonly string[]): readonly string[] {
  return names.toSorted()
}

/** A node that enters a cluster. */
export interface Entry {
  readonly node: string
  readonly member: Pick<Member, 'zone' | 'address'>
  /** Nodes that should hold each point; absent: as the cluster was founded. */
  readonly replicas: number | undefined
  /** Its DIMENSION; null: not set. */
  readonly dimension: number | null
  /** Whether its data can be all the data of the cluster: then it can be the first node. */
  readonly mayFound: boolean
}

/**
 * Adds a node to the topology. The first node founds the cluster and owns all partitions; later nodes copy theirs.
 *
 * @throws DatabaseError `not_ready` when another node has to be the first one; Error when the DIMENSION differs
 */
export function withEntered(topology: Topology, entry: Entry): Topology {
  const { node, member, replicas = topology.ownership.ring.replicas, dimension, mayFound } = entry
  const entered = withMember(topology, node, member)
  if (topology.generation > 0) {
    checkDimension(topology, entry)
    return entered === topology ? topology : withPlaces(entered)
  }
  if (!mayFound)
    throw new DatabaseError('not_ready', 'the node that founds the cluster has not entered it yet')
  return { ...entered, dimension, ownership: foundedOwnership([{ name: node, zone: member.zone }], replicas) }
}

/** Nodes with another DIMENSION could take first points that the others refuse. */
function checkDimension({ dimension: known = null }: Partial<Topology>, { node, dimension }: Entry): void {
  if (known === dimension) return
  const [here, there] = [dimension, known].map((value) => value ?? 'not set')
  const remedy =
    known === null
      ? 'unset it on this node, since the first point fixes the length of all vectors'
      : `set it to ${known} on this node`
  throw new Error(`DIMENSION is ${here} on node ${node} and ${there} in the cluster: ${remedy}`)
}

/** Makes the ring follow the members. A node that is drained or away receives nothing more, and its partitions move to the others. */
export function withPlaces(
  topology: Topology,
  replicas: number = topology.ownership.ring.replicas,
): Topology {
  const { ownership, members } = topology
  const nodes = Object.entries(members).flatMap(([name, { zone, state }]): RingNode[] =>
    state === undefined || state === 'refetching' ? [{ name, zone }] : [],
  )
  const before = ownership.ring
  // Without any node, everything stays where it is.
  const ring = nodes.length === 0 ? { ...before, replicas } : ringOf(nodes, replicas, before)
  return { ...topology, ownership: { ...ownership, ring } }
}

/** Sets how many nodes hold each point. New owners copy their partitions first; then surplus owners drop theirs. */
export function withReplicas(topology: Topology, replicas: number): Topology {
  if (topology.ownership.ring.replicas === replicas) return topology
  return withPlaces({ ...topology, generation: topology.generation + 1 }, replicas)
}

/**
 * Removes a node that is gone for good.
 *
 * @throws DatabaseError `precondition_failed` when no other node has some of its partitions
 */
export function withRemoved(topology: Topology, node: string): Topology {
  const { [node]: gone, ...members } = topology.members
  if (gone === undefined) return topology
  const after = { ...topology, generation: topology.generation + 1, members }
  return withPlaces({ ...after, ownership: withoutNode(topology.ownership, node) })
}

/**
 * Removes a node from all owners because its data are unusable. It owns nothing until it has copied everything again.
 *
 * @throws DatabaseError `precondition_failed` when no other node has some of its partitions
 */
export function withoutCopies(topology: Topology, node: string): Topology {
  const { ownership: before } = topology
  if (!before.owners.some((owners) => owners.includes(node))) return topology
  return { ...topology, generation: topology.generation + 1, ownership: withoutNode(before, node) }
}

/**
 * The warning for a node whose setting differs from the number of replicas; undefined: none. The setting of the first
 * node counts, and changes with `vicinal cluster replicas` since then.
 */
export function replicasNote({ ownership }: Topology, replicas: number | undefined): string | undefined {
  if (replicas === undefined || ownership.ring.replicas === replicas) return undefined
  return `CLUSTER_REPLICAS is ${replicas}, and each point is on ${ownership.ring.replicas} nodes: the setting counts only for the first node of a cluster, \`vicinal cluster replicas\` changes the number later`
}

/**
 * Removes a node from the cluster: the log no longer keeps records for it.
 *
 * @throws DatabaseError `precondition_failed` when no other node has some of its points
 * @returns whether it was a member
 */
export async function removeMember(documents: SharedDocuments, node: string): Promise<boolean> {
  let isMember = false
  await changeTopology(documents, (topology) => {
    isMember = memberOf(topology, node) !== undefined
    return isMember ? withRemoved(topology, node) : topology
  })
  return isMember
}

/**
 * Changes the state of a member.
 *
 * @param next returns the state that follows; it may throw
 * @returns whether the node is a member
 */
export async function setMemberState(
  documents: SharedDocuments,
  node: string,
  next: (before: MemberState | undefined) => MemberState | undefined,
): Promise<boolean> {
  const topology = await changeTopology(documents, (each) => withState(each, node, next))
  return memberOf(topology, node) !== undefined
}

/**
 * Sets the state that an operator wants of a member. A request in progress must end first: it would be forgotten.
 *
 * @throws DatabaseError `precondition_failed` when the member has another state
 * @returns whether the node is a member
 */
export async function requestMemberState(
  documents: SharedDocuments,
  node: string,
  state: WantedState,
): Promise<boolean> {
  return await setMemberState(documents, node, (before) => {
    const wanted = whenBack(before)
    if (wanted === state) return before
    if (wanted === undefined) return before === undefined ? state : whenAway(state)
    throw new DatabaseError('precondition_failed', `node ${node} is ${wanted}: ${remedies[wanted]}`)
  })
}

type WantedState = 'draining' | 'refetching'

const remedies: Readonly<Record<WantedState, string>> = {
  draining: 'undrain it first',
  refetching: 'try again when it is ready',
}

/** The state of a member after others have begun to replace it; the same if they need not. */
export function whenAway(before: MemberState | undefined): MemberState | undefined {
  if (before === undefined) return 'away'
  return before === 'refetching' ? 'awayRefetching' : before
}

/** The state of a member that is there: it is back before others had to replace it, or afterwards. */
function whenBack(before: MemberState | undefined): WantedState | undefined {
  if (before === 'away') return undefined
  return before === 'awayRefetching' ? 'refetching' : before
}

function withState(
  topology: Topology,
  node: string,
  next: (before: MemberState | undefined) => MemberState | undefined,
): Topology {
  const before = memberOf(topology, node)
  if (before === undefined) return topology
  const state = next(before.state)
  if (state === before.state) return topology
  const { zone, address } = before
  const member = { zone, address, ...(state === undefined ? {} : { state }) }
  const members = { ...topology.members, [node]: member }
  return withPlaces({ ...topology, generation: topology.generation + 1, members })
}

/** Notes that a node has fetched its data again, if it should. */
export function withRefetched(topology: Topology, node: string): Topology {
  return withState(topology, node, (before) => (whenBack(before) === 'refetching' ? undefined : before))
}

/** Sets how many nodes hold each point. Partitions then move until that is reached. */
export async function setReplicas(documents: SharedDocuments, replicas: number): Promise<void> {
  await changeTopology(documents, (topology) => withReplicas(topology, replicas))
}

/**
 * Enters a node in the topology of its cluster.
 *
 * @throws DatabaseError `not_ready` when another node has to be the first one; Error when the DIMENSION differs
 */
export async function enter(documents: SharedDocuments, entry: Entry, logger: Logger): Promise<void> {
  const topology = await changeTopology(documents, (each) => withEntered(each, entry))
  const note = replicasNote(topology, entry.replicas)
  if (note !== undefined) logger.warn(note)
}

/** Announces a node that has entered: to be repeated, for an announcement soon expires. */
export async function announce(documents: SharedDocuments, node: string, said: Announcement): Promise<void> {
  await documents.announce(node, toJson(said))
  await setMemberState(documents, node, whenBack)
}
