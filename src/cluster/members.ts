import type { SharedDocuments } from './commit-log.ts'
import { withPlaces, withRemoved, withReplicas } from './places.ts'
import { changeTopology, type MemberState, memberOf } from './topology.ts'

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
 * Sets the state of a member.
 *
 * @param isAllowed whether the new state may follow the current one
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
    const before = memberOf(topology, node)
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
 * Sets how many nodes hold each point. Partitions then move until that is reached.
 *
 * @throws DatabaseError `precondition_failed` when every node holds all points
 */
export async function setReplicas(documents: SharedDocuments, replicas: number): Promise<void> {
  await changeTopology(documents, (topology) => withReplicas(topology, replicas))
}
