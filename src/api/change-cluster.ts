import type { ClusterStatus } from '../base/cluster-status.ts'
import { assert, DatabaseError, invalid } from '../base/errors.ts'
import type { ApiContext, ClusterControl } from './call.ts'

/** The operations on the cluster of this node. Only a node of a cluster offers them. */

export interface NodeInput {
  readonly name?: string | undefined
}

export interface ReplicasInput {
  /** As text, from the query of a request. */
  readonly count?: string | undefined
}

export async function getCluster(context: ApiContext): Promise<ClusterStatus> {
  return await clusterOf(context).status()
}

/** Removes a node that does not run. Fails with `not_found` and `precondition_failed`. */
export async function removeNode(context: ApiContext, { name = '' }: NodeInput): Promise<undefined> {
  const cluster = clusterOf(context)
  const { nodes } = await cluster.status()
  if (nodes.some((node) => node.name === name && node.is_alive)) {
    throw new DatabaseError('precondition_failed', `node ${name} is running: stop it first`)
  }
  checkFound(await cluster.remove(name), name)
}

/** Stops a node from accepting clients. Fails with `not_found`. */
export async function drainNode(context: ApiContext, { name = '' }: NodeInput): Promise<undefined> {
  checkFound(await clusterOf(context).drain(name, true), name)
}

/** Lets a node that is being drained accept clients again. Fails with `not_found`. */
export async function undrainNode(context: ApiContext, { name = '' }: NodeInput): Promise<undefined> {
  checkFound(await clusterOf(context).drain(name, false), name)
}

/** Makes a node fetch all its data from another node. Fails with `not_found`. */
export async function refetchNode(context: ApiContext, { name = '' }: NodeInput): Promise<undefined> {
  checkFound(await clusterOf(context).refetch(name), name)
}

/** Sets the number of replicas of each point, in a cluster that divides the points among its nodes. */
export async function setReplicas(context: ApiContext, { count }: ReplicasInput): Promise<undefined> {
  const replicas = Number(count)
  if (!(Number.isInteger(replicas) && replicas >= 1 && replicas <= replicasMax)) {
    throw invalid(`count must be a whole number from 1 to ${replicasMax}`)
  }
  await clusterOf(context).setReplicas(replicas)
}

/** The maximum of CLUSTER_REPLICAS. */
const replicasMax = 1000

function clusterOf({ clusterControl }: ApiContext): ClusterControl {
  assert(clusterControl !== undefined, 'transports offer these operations on nodes of a cluster only')
  return clusterControl
}

function checkFound(isFound: boolean, node: string): void {
  if (!isFound) throw new DatabaseError('not_found', `no node ${node} in this cluster`)
}
