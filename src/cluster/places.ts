import { DatabaseError } from '../base/errors.ts'
import { partitionCount } from '../base/partitions.ts'
import { partitionsIn, type RepairPlan } from '../base/repair-plan.ts'
import { foundedOwnership, withoutNode, withRing } from './ownership.ts'
import { type RingNode, ringOf } from './ring.ts'
import { type Member, type Topology, withMember } from './topology.ts'

/** A node that enters a cluster. */
export interface Entry {
  readonly node: string
  readonly member: Pick<Member, 'zone' | 'address'>
  /** Nodes that should have each point; absent: as the cluster was founded. */
  readonly replicas: number | undefined
  /** Whether it can ask other nodes, and they it. */
  readonly hasLink: boolean
  /** Whether what it has can be all that there is: then it can be the first one. */
  readonly mayFound: boolean
}

/**
 * A cluster is founded by its first node: with a link and a number of replicas, nodes may have a part of the points each. That
 * node owns all partitions then, and those that follow get theirs from it. Otherwise every node has all points, for ever:
 * what its log has in it can be decided by such nodes only.
 *
 * @throws Error that names the setting which does not fit; DatabaseError `not_ready` when another node has to be the first one
 */
export function withEntered(topology: Topology, entry: Entry): Topology {
  const { node, member, replicas, hasLink, mayFound } = entry
  const isFirst = topology.generation === 0 && topology.ownership === undefined
  const founds = isFirst && hasLink && replicas !== undefined
  if (founds && !mayFound)
    throw new DatabaseError('not_ready', 'the node that begins the cluster has not entered it yet')
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

/** The ring follows the members: one that is drained gets nothing more, and what it has goes to the others. */
export function withPlaces(topology: Topology): Topology {
  const { ownership, members } = topology
  if (ownership === undefined) return topology
  const nodes = Object.entries(members).flatMap(([name, { zone, state }]): RingNode[] =>
    state === 'draining' ? [] : [{ name, zone }],
  )
  // Without any, everything stays where it is.
  if (nodes.length === 0) return topology
  return { ...topology, ownership: withRing(ownership, nodes, ownership.ring.replicas) }
}

/**
 * Each point is to be on so many nodes from now on: those that should have it as well get it, and then those go that should
 * not.
 *
 * @throws DatabaseError `precondition_failed` where every node has all points
 */
export function withReplicas(topology: Topology, replicas: number): Topology {
  const { ownership } = topology
  if (ownership === undefined) throw new DatabaseError('precondition_failed', wholeForEver)
  const { ring } = ownership
  if (ring.replicas === replicas) return topology
  const generation = topology.generation + 1
  return withPlaces({ ...topology, generation, ownership: { ...ownership, ring: { ...ring, replicas } } })
}

/** The log was lost, and goes on with what nodes have: each partition is owned by those that are the furthest with it. */
export function withRepaired(topology: Topology, plan: RepairPlan): Topology {
  const planned = Object.entries(plan.nodes)
  const members = Object.fromEntries(planned.map(([name, { zone, address }]) => [name, { zone, address }]))
  const keepers = planned.map(([name, { keeps }]) => ({ name, keeps: partitionsIn(keeps) }))
  const owners = Array.from({ length: partitionCount }, (_, partition) =>
    keepers.flatMap(({ name, keeps }) => (keeps.has(partition) ? [name] : [])).toSorted(),
  )
  const nodes = planned.map(([name, { zone }]) => ({ name, zone }))
  const ring = topology.ownership?.ring ?? plan.ring ?? ringOf(nodes, plan.replicas)
  return withPlaces({
    generation: Math.max(topology.generation, plan.generation) + 1,
    members: { ...members, ...topology.members },
    ownership: { ring, owners },
  })
}

/**
 * A node is gone for good.
 *
 * @throws DatabaseError `precondition_failed` when nobody else has some of what it had
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
 * What a node has cannot be used: it owns nothing until it has got everything anew.
 *
 * @throws DatabaseError `precondition_failed` when nobody else has some of it
 */
export function withoutCopies(topology: Topology, node: string): Topology {
  const { ownership: before } = topology
  if (!before?.owners.some((owners) => owners.includes(node))) return topology
  const { ownership, lost } = withoutNode(before, node)
  if (lost.length > 0) throw new DatabaseError('precondition_failed', onlyCopy(node, lost))
  return { ...topology, generation: topology.generation + 1, ownership }
}

const wholeForEver =
  'each node of this cluster has all points, and how many replicas there are cannot be changed: its log can have records which only such nodes can decide, and a node that reads them again has to come to the same. Found a cluster with CLUSTER_REPLICAS from a backup of this one'

function onlyCopy(node: string, lost: readonly number[]): string {
  return `${node} is the only node that has ${lost.length} of the partitions: start it, and drain it before it is removed`
}

/** What a node is told whose setting is not what holds: that of the first node counted, and a change of it since then. */
export function replicasNote({ ownership }: Topology, replicas: number | undefined): string | undefined {
  if (ownership === undefined || replicas === undefined || ownership.ring.replicas === replicas)
    return undefined
  return `CLUSTER_REPLICAS is ${replicas}, and each point is on ${ownership.ring.replicas} nodes: the setting counts for the first node of a cluster only, \`vicinal cluster replicas\` changes it`
}

function checkParts({ hasLink }: Entry): void {
  if (!hasLink) {
    throw new Error(
      'the nodes of this cluster may have a part of the points each and ask each other: set CLUSTER_SECRET or CLUSTER_TLS_CA, CLUSTER_TLS_CERT and CLUSTER_TLS_KEY as for the others',
    )
  }
}

function checkWhole({ members }: Topology, replicas: number | undefined): void {
  const nodes = Object.keys(members).length
  if (replicas === undefined || nodes <= replicas) return
  throw new Error(
    `CLUSTER_REPLICAS is ${replicas}, and the cluster would have ${nodes} nodes: it was founded for nodes that have all points each, as its first node had no link (CLUSTER_SECRET or CLUSTER_TLS_CA) or no CLUSTER_REPLICAS`,
  )
}
