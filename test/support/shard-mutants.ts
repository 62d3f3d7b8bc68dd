import { PartitionSet, partitionOf } from '../../src/base/partitions.ts'
import type { SimulatedNode } from './cluster-nodes.ts'

/** As `clusterMutants`, of nodes that have a part of the points each. */
export const shardMutants: Readonly<Record<string, (node: SimulatedNode) => void>> = {
  'a node passes over some of what it should have': ({ up: { main } }) => {
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
  'a node keeps what others should have': ({ sharding }) => {
    const { held } = sharding!
    for (const partition of PartitionSet.all()) held.add(partition)
  },
  'a node makes up the answer to a record that it passes over': ({ up: { node }, sharding }) => {
    const write = node.write.bind(node)
    Object.assign(node, {
      write: async (...[request, to]: Parameters<typeof write>) => {
        const written = await write(request, to)
        if (request.kind !== 'put' || sharding!.held.has(partitionOf(request.id))) return written
        return { version: 65_536, created: true }
      },
    })
  },
  'a node answers others before it has applied a record': ({ up: { node } }) => {
    const answer = node.answerOutcome.bind(node)
    Object.assign(node, {
      answerOutcome: async (...[question, signal]: Parameters<typeof answer>) => {
        if (node.position >= Buffer.from(question).readDoubleLE()) return await answer(question, signal)
        return Buffer.from(JSON.stringify({ errors: [] }))
      },
    })
  },
  'a node does not ask others to be as new as a read has to be': ({ up: { node } }) => {
    const readsOf = node.readsOf.bind(node)
    Object.assign(node, {
      readsOf: (...[collection, local]: Parameters<typeof readsOf>) => readsOf(collection, local, 0),
    })
  },
  'numbers of changes count what a node has': ({ up: { main }, sharding }) => {
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
  'what was found of points is believed although they have changed since': ({ up: { main } }) => {
    const { replica } = main
    const apply = replica.apply.bind(replica)
    Object.assign(replica, {
      apply: (...[request, stamp, held]: Parameters<typeof apply>) =>
        apply(request, { ...stamp, isStale: false }, held),
    })
  },
  'idempotency keys are kept by the owners of the points alone': ({ up: { main }, sharding }) => {
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
}
