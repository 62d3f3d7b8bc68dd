import { newId, PartitionSet, partitionOf } from '../../src/base/partitions.ts'
import { fromBytes, toBytes } from '../../src/base/plain-values.ts'
import { atOnce } from '../../src/base/turns.ts'
import type { BatchToAppend } from '../../src/cluster/log/publisher.ts'
import { decodeInTurns } from '../../src/cluster/log/request-codec.ts'
import { decodeQuestion, type PeerHandler } from '../../src/cluster/requests.ts'
import type { Inserted } from '../../src/points/database.ts'
import { type Mutant, wrongAnswer } from './cluster-mutants.ts'

/** Like `clusterMutants`, for nodes that have a part of the points each. */
export const shardMutants: Readonly<Record<string, Mutant>> = {
  'a node passes over some of what it should have': {
    foundBy: wrongAnswer,
    mutate({ up: { main } }) {
      const { replica } = main
      const apply = replica.apply.bind(replica)
      Object.assign(replica, {
        apply: (...[request, stamp, held]: Parameters<typeof apply>) => {
          if (request.kind !== 'insert') return apply(request, stamp, held)
          // That of half of the ids.
          return apply(request, stamp, PartitionSet.of([...held!].filter((partition) => partition !== 7)))
        },
      })
    },
  },
  'a node keeps what others should have': {
    foundBy: /^the points of node-\d/,
    mutate({ sharding }) {
      const { held } = sharding!
      for (const partition of PartitionSet.all()) held.add(partition)
    },
  },
  'a node makes up the answer to a record that it passes over': {
    foundBy: wrongAnswer,
    mutate({ up: { node }, sharding }) {
      const write = node.write.bind(node)
      Object.assign(node, {
        write: async (...[request, to]: Parameters<typeof write>) => {
          const written = await write(request, to)
          if (request.kind !== 'put' || sharding!.held.has(partitionOf(request.id))) return written
          return { version: 65_536, created: true }
        },
      })
    },
  },
  'an owner answers a write of another node before it has decided it': {
    foundBy: wrongAnswer,
    mutate({ up: { node } }) {
      const answer = node.peerHandlers.get('write')!
      const handlers = node.peerHandlers as Map<string, PeerHandler>
      handlers.set('write', async (body, call) => {
        const written = atOnce(fromBytes(await (answer(body, call) as Promise<Uint8Array>))) as object
        const { batch } = await decodeQuestion<{ readonly batch: BatchToAppend }>(body)
        const { request } = await decodeInTurns(batch.payload)
        const result = { version: 65_536, created: true }
        return atOnce(toBytes(request.kind === 'put' ? { ...written, result } : written))
      })
    },
  },
  'a node does not ask others to be as new as a read has to be': {
    seed: 4,
    foundBy: /^a (session|latest) read of/,
    mutate({ up: { node } }) {
      const readsOf = node.readsOf.bind(node)
      Object.assign(node, {
        readsOf: (...[collection, local]: Parameters<typeof readsOf>) => readsOf(collection, local, 0),
      })
    },
  },
  'numbers of changes count what a node has': {
    seed: 4,
    foundBy: /^(audits of|the points of|the digest of|the answer of|a \w+ read of)/,
    changesByFilter: 0.4,
    mutate({ up: { main }, sharding }) {
      const { replica } = main
      const apply = replica.apply.bind(replica)
      Object.assign(replica, {
        apply: (...[request, stamp, held]: Parameters<typeof apply>) => {
          if (request.kind !== 'each') return apply(request, stamp, held)
          const ids = request.ids.filter((id) => sharding!.held.has(partitionOf(id)))
          return apply({ ...request, ids }, stamp, held)
        },
      })
    },
  },
  'an owner does not say which points of an insert it has refused': {
    seed: 4,
    foundBy: wrongAnswer,
    mutate({ up: { node } }) {
      const answer = node.peerHandlers.get('applied')!
      const handlers = node.peerHandlers as Map<string, PeerHandler>
      handlers.set('applied', async (body, call) => {
        const bytes = await (answer(body, call) as Promise<Uint8Array>)
        const written = atOnce(fromBytes(bytes)) as { readonly result?: Partial<Inserted> }
        const ids = written.result?.ids?.map((id) => id ?? newId())
        return ids === undefined ? bytes : atOnce(toBytes({ ...written, result: { ids, errors: [] } }))
      })
    },
  },
  'an insert with an id is decided again when it is repeated': {
    seed: 4,
    foundBy: /^(the answer of write \d+|the points of|the digest of|a \w+ read of)/,
    mutate({ up: { main } }) {
      const { replica } = main
      const apply = replica.apply.bind(replica)
      Object.assign(replica, {
        apply: (...[request, stamp, held]: Parameters<typeof apply>) => {
          if (request.kind !== 'insert') return apply(request, stamp, held)
          const hasIds = request.points.some(({ id }) => id !== undefined)
          return apply(hasIds ? { ...request, identity: undefined } : request, stamp, held)
        },
      })
    },
  },
  'idempotency keys are kept by the owners of the points alone': {
    seed: 5,
    foundBy: wrongAnswer,
    mutate({ up: { main }, sharding }) {
      const { replica } = main
      const apply = replica.apply.bind(replica)
      Object.assign(replica, {
        apply: async (...[request, stamp, held]: Parameters<typeof apply>) => {
          if (request.kind !== 'insert') return await apply(request, stamp, held)
          const isOwn = request.points.some(({ id }) =>
            sharding!.held.has(id === undefined ? request.idSeed[0]! : partitionOf(id)),
          )
          return await apply(isOwn ? request : { ...request, identity: undefined }, stamp, held)
        },
      })
    },
  },
}
