import type { FastifyInstance, FastifyReply } from 'fastify'
import type { ClusterStatus, RepairedLog } from '../base/cluster-status.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { HeldPart, RepairPlan } from '../base/repair-plan.ts'
import { RequestBody } from './bodies.ts'
import { streamAnswer } from './streamed-answer.ts'

/** The cluster of this node, as HTTP shows it. */
export interface ClusterPages {
  /** Why requests have to wait; undefined when nothing keeps them. */
  readonly notReady: () => string | undefined
  readonly status: () => Promise<ClusterStatus>
  /** Takes a node out of the cluster. Returns whether it was in it. */
  readonly remove: (node: string) => Promise<boolean>
  /** Has a node take no more clients, or take them again. Returns whether it is in the cluster. */
  readonly drain: (node: string, isDrained: boolean) => Promise<boolean>
  /** Has a node fetch everything from another one. Returns whether it is in the cluster. */
  readonly refetch: (node: string) => Promise<boolean>
  /** Has each point on so many nodes from now on, where nodes have a part of the points each. */
  readonly setReplicas: (replicas: number) => Promise<void>
  /**
   * Begins a new log with what this node holds, in place of one that is lost.
   *
   * @param position up to which the node has applied the lost one, as the caller has seen it; undefined: wherever it is
   * @param plan where nodes have a part of the points each
   */
  readonly repair: (position: number | undefined, plan: RepairPlan | undefined) => Promise<RepairedLog>
  /** What this node holds while the log is lost, for such a plan. */
  readonly heldPart: () => Promise<HeldPart>
  /** What this node holds, for another one to hold the same. */
  readonly replica: ReplicaPages
}

/** Everything that a node holds, as replica-transfer.ts of the cluster describes it. */
export interface ReplicaPages {
  readonly catalog: () => unknown
  /** The caller closes it. */
  readonly collection: (
    name: string,
    position: number,
  ) => Promise<{ readonly chunks: AsyncIterable<Buffer>; readonly close: () => void }>
}

/** The paths of a node in a cluster, with their methods; other nodes do not have them. */
export const clusterPaths: Readonly<Record<string, readonly string[]>> = {
  '/cluster': ['GET', 'HEAD'],
  '/cluster/nodes/:name': ['DELETE'],
  '/cluster/nodes/:name/drain': ['POST', 'DELETE'],
  '/cluster/nodes/:name/refetch': ['POST'],
  '/cluster/replicas': ['PUT'],
  '/cluster/repair': ['GET', 'HEAD', 'POST'],
  '/cluster/replica': ['GET', 'HEAD'],
  '/cluster/replica/:collection': ['POST'],
}

export interface ClusterPageOptions {
  /** How long a node may leave a sent chunk unread. */
  readonly requestTimeoutMs: number
  readonly logger: Logger
}

export function addCluster(app: FastifyInstance, cluster: ClusterPages, options: ClusterPageOptions): void {
  app.get('/cluster', { config: { role: 'read' } }, async (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(JSON.stringify(await cluster.status())),
  )
  app.delete<Named>('/cluster/nodes/:name', async ({ params: { name } }, reply) => {
    const { nodes } = await cluster.status()
    if (nodes.some((node) => node.name === name && node.is_there)) {
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
  app.put<{ Querystring: { count?: string } }>('/cluster/replicas', async ({ query }, reply) => {
    await cluster.setReplicas(replicasIn(query.count))
    return reply.status(204).send()
  })
  app.get('/cluster/repair', async (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(JSON.stringify(await cluster.heldPart())),
  )
  app.post<{ Querystring: { position?: string } }>('/cluster/repair', async ({ query, body }, reply) => {
    const position = query.position === undefined ? undefined : positionIn(query.position)
    const repaired = await cluster.repair(position, planIn(body))
    return reply.type('application/json; charset=utf-8').send(JSON.stringify(repaired))
  })
  addReplica(app, cluster.replica, options)
}

/** For other nodes: it takes a key that may write. */
function addReplica(app: FastifyInstance, replica: ReplicaPages, options: ClusterPageOptions): void {
  app.get('/cluster/replica', (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(JSON.stringify(replica.catalog())),
  )
  app.post<{ Params: { collection: string }; Querystring: { position?: string } }>(
    '/cluster/replica/:collection',
    async ({ params, query }, reply) => {
      const position = positionIn(query.position ?? '0')
      const { chunks, close } = await replica.collection(params.collection, position)
      reply.headers({ 'content-type': 'application/octet-stream', 'cache-control': 'no-store' })
      return streamAnswer(reply, { ...options, chunks, what: 'a copy for another node', ended: close })
    },
  )
}

type Named = { readonly Params: { readonly name: string } }

/** @throws DatabaseError `invalid_argument` */
function positionIn(text: string): number {
  const position = Number(text)
  if (Number.isSafeInteger(position) && position >= 0) return position
  throw new DatabaseError('invalid_argument', 'position is no position of the log')
}

/** @throws DatabaseError `invalid_argument` */
function replicasIn(text: string | undefined): number {
  const count = Number(text)
  if (Number.isInteger(count) && count >= 1 && count <= replicasMax) return count
  throw new DatabaseError('invalid_argument', `count is no whole number from 1 to ${replicasMax}`)
}

/** As CLUSTER_REPLICAS. */
const replicasMax = 1000

/** @throws DatabaseError `invalid_argument` */
function planIn(body: unknown): RepairPlan | undefined {
  const bytes = body instanceof RequestBody ? body.take() : undefined
  if (bytes === undefined || bytes.length === 0) return undefined
  try {
    const plan = JSON.parse(bytes.toString()) as RepairPlan
    const isPlan =
      typeof plan.leader === 'string' && Number.isSafeInteger(plan.position) && typeof plan.nodes === 'object'
    if (isPlan) return plan
  } catch {
    // Told below.
  }
  throw new DatabaseError('invalid_argument', 'the body is no plan of a repair')
}

function noNode(name: string): DatabaseError {
  return new DatabaseError('not_found', `no node ${name} in this cluster`)
}
