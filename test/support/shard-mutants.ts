import { DatabaseError } from '../../src/base/errors.ts'
import { PartitionSet, partitionOf } from '../../src/base/partitions.ts'
import { RecordAssembler } from '../../src/cluster/log/records.ts'
import { type ClusterRequest, decodeRequest } from '../../src/cluster/log/request-codec.ts'
import { decodeQuestion, encodeOutcome } from '../../src/cluster/outcomes.ts'
import { type Mutant, wrongAnswer } from './cluster-mutants.ts'
import type { SimulatedNode } from './cluster-nodes.ts'

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
  'a node answers others before it has applied a record': {
    foundBy: wrongAnswer,
    mutate({ up: { node }, log }) {
      const answer = node.answerOutcome.bind(node)
      Object.assign(node, {
        answerOutcome: async (...[question, signal]: Parameters<typeof answer>) => {
          const { position } = decodeQuestion(question)
          const early = node.position < position ? await requestAt(log, position) : undefined
          if (early?.kind !== 'insert') return await answer(question, signal)
          // Without errors, the answer would be right for most inserts.
          const error = new DatabaseError('already_exists', 'not stored')
          return encodeOutcome({
            result: { ids: [], errors: early.points.map((_, index) => ({ index, error })) },
          })
        },
      })
    },
  },
  'a node does not ask others to be as new as a read has to be': {
    foundBy: /^a (session|latest) read of/,
    mutate({ up: { node } }) {
      const readsOf = node.readsOf.bind(node)
      Object.assign(node, {
        readsOf: (...[collection, local]: Parameters<typeof readsOf>) => readsOf(collection, local, 0),
      })
    },
  },
  'numbers of changes count what a node has': {
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
  'what was found of points is believed although they have changed since': {
    foundBy: wrongAnswer,
    mutate({ up: { main } }) {
      const { replica } = main
      const apply = replica.apply.bind(replica)
      Object.assign(replica, {
        apply: (...[request, stamp, held]: Parameters<typeof apply>) =>
          apply(request, { ...stamp, isStale: false }, held),
      })
    },
  },
  'idempotency keys are kept by the owners of the points alone': {
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

async function requestAt(log: SimulatedNode['log'], position: number): Promise<ClusterRequest | undefined> {
  const connection = log.connect()
  try {
    const assembler = new RecordAssembler(connection, {
      cacheBytesMax: recordBytesMax,
      batchBytesMax: recordBytesMax,
    })
    const batch = await assembler.accept((await connection.get(position))!)
    return batch && decodeRequest(batch.payload).request
  } finally {
    await connection.close()
  }
}

/** More than a simulation writes. */
const recordBytesMax = 2 ** 20
