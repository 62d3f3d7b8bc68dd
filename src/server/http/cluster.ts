import type { FastifyInstance, FastifyReply } from 'fastify'
import type { ClusterStatus } from '../../base/cluster-status.ts'
import { DatabaseError } from '../../base/errors.ts'

/** The operations on this node's cluster that HTTP offers. */
export interface ClusterPages {
  /** Why the node is not ready; undefined if it is. */
  readonly notReady: () => string | undefined
  readonly status: () => Promise<ClusterStatus>
  /** Removes a node from the cluster. Returns whether the node was a member. */
  readonly remove: (node: string) => Promise<boolean>
  /** Stops a node from accepting clients, or lets it accept them again. Returns whether the node is a member. */
  readonly drain: (node: string, isDrained: boolean) => Promise<boolean>
  /** Makes a node fetch all its data from another node. Returns whether the node is a member. */
  readonly refetch: (node: string) => Promise<boolean>
  /** Sets the number of replicas of each point, in a cluster that divides the points among its nodes. */
  readonly setReplicas: (replicas: number) => Promise<void>
}

/** The paths, with their methods, that only a node of a cluster has. */
export const clusterPaths: Readonly<Record<string, readonly string[]>> = {
  '/cluster': ['GET', 'HEAD'],
  '/cluster/nodes/:name': ['DELETE'],
  '/cluster/nodes/:name/drain': ['POST', 'DELETE'],
  '/cluster/nodes/:name/refetch': ['POST'],
  '/cluster/replicas': ['PUT'],
}

export function addCluster(app: FastifyInstance, cluster: ClusterPages): void {
  app.get('/cluster', { config: { role: 'read' } }, async (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(JSON.stringify(await cluster.status())),
  )
  app.delete<Named>('/cluster/nodes/:name', async ({ params: { name } }, reply) => {
    const { nodes } = await cluster.status()
    if (nodes.some((node) => node.name === name && node.is_alive)) {
      throw new DatabaseError('precondition_failed', `node ${name} is running: stop it first`)
    }
    if (!(await cluster.remove(name))) throw noNode(name)
    return reply.status(204).send()
  })
  const change = async (
    name: string,
    change: Promise<boolean>,
    reply: FastifyReply,
  ): Promise<FastifyReply> => {
    if (!(await change)) throw noNode(name)
    return reply.status(204).send()
  }
  app.post<Named>('/cluster/nodes/:name/drain', ({ params: { name } }, reply) =>
    change(name, cluster.drain(name, true), reply),
  )
  app.delete<Named>('/cluster/nodes/:name/drain', ({ params: { name } }, reply) =>
    change(name, cluster.drain(name, false), reply),
  )
  app.post<Named>('/cluster/nodes/:name/refetch', ({ params: { name } }, reply) =>
    change(name, cluster.refetch(name), reply),
  )
  app.put<{ Querystring: { count?: string } }>(
    '/cluster/replicas',
    { config: { parameters: ['count'] } },
    async ({ query }, reply) => {
      await cluster.setReplicas(replicasIn(query.count))
      return reply.status(204).send()
    },
  )
}

type Named = { readonly Params: { readonly name: string } }

/** @throws DatabaseError `invalid_argument` */
function replicasIn(text: string | undefined): number {
  const count = Number(text)
  if (Number.isInteger(count) && count >= 1 && count <= replicasMax) return count
  throw new DatabaseError('invalid_argument', `count must be a whole number from 1 to ${replicasMax}`)
}

/** The maximum of CLUSTER_REPLICAS. */
const replicasMax = 1000

function noNode(name: string): DatabaseError {
  return new DatabaseError('not_found', `no node ${name} in this cluster`)
}
