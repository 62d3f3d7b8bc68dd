import { DatabaseError } from '../base/errors.ts'
import { foundedOwnership, withoutNode, withRing } from './ownership.ts'
import type { RingNode } from './ring.ts'
import { type Member, type Topology, withMember } from './topology.ts'

/** A node that enters a cluster. */
export interface Entry {
  readonly node: string
  readonly member: Pick<Member, 'zone' | 'address'>
  /** Nodes that should hold each point; absent: as the cluster was founded. */
  readonly replicas: number | undefined
  /** Whether it has a link to the other nodes. */
  readonly hasLink: boolean
  /** Whether its data can be all the data of the cluster: then it can be the first node. */
  readonly mayFound: boolean
}

/**
 * Adds a node to the topology. The first node founds the cluster. If it has a link and a number of replicas, each
 * node may hold only some of the points. The first node then owns all partitions, and later nodes copy theirs from
 * it. Otherwise every node holds all points, forever: the log can have records that only such nodes can decide.
 *
 * @throws Error that names the setting that does not fit; DatabaseError `not_ready` when another node has to be the
 *   first one
 */
export function withEntered(topology: Topology, entry: Entry): Topology {
  const { node, member, replicas, hasLink, mayFound } = entry
  const isFirst = topology.generation === 0 && topology.ownership === undefined
  const founds = isFirst && hasLink && replicas !== undefined
  if (founds && !mayFound)
    throw new DatabaseError('not_ready', 'the node that founds the cluster has not entered it yet')
  const entered = withMember(topology, node, member)
  if (topology.ownership !== undefined) {
    checkParts(entry)
    return entered === topology ? topology : withPlaces(entered)
  }
  if (founds)
    return { ...entered, ownership: foundedOwnership([{ name: node, zone: member.zone }], replicas) }
  checkWhole(entered, replicas)
  return entered
}

/** Makes the ring follow the members. A drained node receives nothing more, and its partitions move to the others. */
export function withPlaces(topology: Topology): Topology {
  const { ownership, members } = topology
  if (ownership === undefined) return topology
  const nodes = Object.entries(members).flatMap(([name, { zone, state }]): RingNode[] =>
    state === 'draining' ? [] : [{ name, zone }],
  )
  // Without any node, everything stays where it is.
  if (nodes.length === 0) return topology
  return { ...topology, ownership: withRing(ownership, nodes, ownership.ring.replicas) }
}

/**
 * Sets how many nodes hold each point. New owners copy their partitions first; then surplus owners drop theirs.
 *
 * @throws DatabaseError `precondition_failed` when every node holds all points
 */
export function withReplicas(topology: Topology, replicas: number): Topology {
  const { ownership } = topology
  if (ownership === undefined) throw new DatabaseError('precondition_failed', wholeForever)
  const { ring } = ownership
  if (ring.replicas === replicas) return topology
  const generation = topology.generation + 1
  return withPlaces({ ...topology, generation, ownership: { ...ownership, ring: { ...ring, replicas } } })
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
  if (topology.ownership === undefined) return after
  const { ownership, lost } = withoutNode(topology.ownership, node)
  if (lost.length > 0) throw new DatabaseError('precondition_failed', onlyCopy(node, lost))
  return withPlaces({ ...after, ownership })
}

/**
 * Removes a node from all owners because its data are unusable. It owns nothing until it has copied everything again.
 *
 * @throws DatabaseError `precondition_failed` when no other node has some of its partitions
 */
export function withoutCopies(topology: Topology, node: string): Topology {
  const { ownership: before } = topology
  if (!before?.owners.some((owners) => owners.includes(node))) return topology
  const { ownership, lost } = withoutNode(before, node)
  if (lost.length > 0) throw new DatabaseError('precondition_failed', onlyCopy(node, lost))
  return { ...topology, generation: topology.generation + 1, ownership }
}

const wholeForever =
  'each node of this cluster holds all points, and the number of replicas cannot be changed: its log can have records that only such nodes can decide, and a node that reads them again must decide the same. Found a new cluster with CLUSTER_REPLICAS from a backup of this one'

function onlyCopy(node: string, lost: readonly number[]): string {
  return `${node} is the only node that has ${lost.length} of the partitions: start it, and drain it before it is removed`
}

/**
 * The warning for a node whose setting differs from the number of replicas; undefined: none. The setting of the first
 * node counts, and changes with `vicinal cluster replicas` since then.
 */
export function replicasNote({ ownership }: Topology, replicas: number | undefined): string | undefined {
  if (ownership === undefined || replicas === undefined || ownership.ring.replicas === replicas)
    return undefined
  return `CLUSTER_REPLICAS is ${replicas}, and each point is on ${ownership.ring.replicas} nodes: the setting counts only for the first node of a cluster, \`vicinal cluster replicas\` changes the number later`
}

function checkParts({ hasLink }: Entry): void {
  if (!hasLink) {
    throw new Error(
      'each node of this cluster may hold only some of the points, so nodes ask each other: set CLUSTER_SECRET or CLUSTER_TLS_CA, CLUSTER_TLS_CERT and CLUSTER_TLS_KEY as on the other nodes',
    )
  }
}

function checkWhole({ members }: Topology, replicas: number | undefined): void {
  const nodes = Object.keys(members).length
  if (replicas === undefined || nodes <= replicas) return
  throw new Error(
    `CLUSTER_REPLICAS is ${replicas}, and the cluster would have ${nodes} nodes: each of its nodes holds all points, because its first node had no link (CLUSTER_SECRET or CLUSTER_TLS_CA) or no CLUSTER_REPLICAS`,
  )
}
