import type { SharedDocuments } from './commit-log.ts'
import { withPlaces, withRemoved, withReplicas } from './places.ts'
import { changeTopology, type MemberState, readTopology } from './topology.ts'

/**
 * Takes a node out of the cluster: the log is not kept for it any more.
 *
 * @throws DatabaseError `precondition_failed` when nobody else has some of its points
 * @returns whether it was a member
 */
export async function removeMember(documents: SharedDocuments, node: string): Promise<boolean> {
  const before = await readTopology(documents)
  if (!Object.hasOwn(before.topology.members, node)) return false
  await changeTopology(documents, (topology) => withRemoved(topology, node))
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
    return withPlaces({
      ...topology,
      generation: topology.generation + 1,
      members: { ...topology.members, [node]: member },
    })
  })
  return isMember
}

/**
 * Has each point on so many nodes from now on; partitions move until it is.
 *
 * @throws DatabaseError `precondition_failed` where every node has all points
 */
export async function setReplicas(documents: SharedDocuments, replicas: number): Promise<void> {
  await changeTopology(documents, (topology) => withReplicas(topology, replicas))
}
