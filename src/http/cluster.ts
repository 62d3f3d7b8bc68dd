import type { FastifyInstance } from 'fastify'
import type { ClusterStatus } from '../base/cluster-status.ts'
import { DatabaseError } from '../base/errors.ts'

/** The cluster of this node, as HTTP shows it. */
export interface ClusterPages {
  /** Why requests have to wait; undefined when nothing keeps them. */
  readonly notReady: () => string | undefined
  readonly status: () => Promise<ClusterStatus>
  /** Takes a node out of the cluster. Returns whether it was in it. */
  readonly remove: (node: string) => Promise<boolean>
}

/** The paths of a node in a cluster, with their methods; other nodes do not have them. */
export const clusterPaths: Readonly<Record<string, readonly string[]>> = {
  '/cluster': ['GET', 'HEAD'],
  '/cluster/nodes/:name': ['DELETE'],
}

export function addCluster(app: FastifyInstance, cluster: ClusterPages): void {
  app.get('/cluster', { config: { role: 'read' } }, async (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(JSON.stringify(await cluster.status())),
  )
  app.delete<{ Params: { name: string } }>('/cluster/nodes/:name', async ({ params: { name } }, reply) => {
    const { nodes } = await cluster.status()
    if (nodes.some((node) => node.name === name && node.is_there)) {
      throw new DatabaseError('precondition_failed', `node ${name} is running: stop it first`)
    }
    if (!(await cluster.remove(name))) throw new DatabaseError('not_found', `no node ${name} in this cluster`)
    return reply.status(204).send()
  })
}
