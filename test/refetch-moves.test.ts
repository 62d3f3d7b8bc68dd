import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { SharedDocuments } from '../src/cluster/log/commit-log.ts'
import { fromJson, memberOf, type Topology } from '../src/cluster/membership/topology.ts'
import {
  inParts,
  startTestCluster,
  type TestCluster,
  type TestService,
  untilSettled,
} from './support/service.ts'
import { until } from './support/until.ts'

describe('a node in parts that fetches everything again', () => {
  it('does not become an owner again through a move that was in progress', async () => {
    await using cluster = await startTestCluster(['a'], inParts('2'))
    const [a] = cluster.services
    for (let point = 0; point < 5; point += 1) await insertPoint(a!)
    // So b does not get all partitions at once, from the log.
    cluster.log.discard(cluster.log.bounds.last)
    assert.ok(cluster.log.bounds.first > 1)
    const seen = watchTopologiesOf(cluster)
    await cluster.add('b')
    await until(() => seen.isHeld, 'a move is about to make b an owner')
    const asked = await fetch(`${a!.httpUrl}/cluster/nodes/b/refetch`, { method: 'POST' })
    assert.ok(asked.ok)
    const afterLeaving = (): Topology[] =>
      seen.written.slice(seen.written.findIndex((topology) => isRefetching(topology) && !owns(topology)))
    const fetchesAt = (): number => afterLeaving().findIndex((topology) => !isRefetching(topology))
    await until(() => seen.written.some(isRefetching) && fetchesAt() > 0, 'b leaves, then has fetched')
    const between = afterLeaving().slice(0, fetchesAt())
    assert.ok(!between.some(owns), 'b stays without partitions until it has fetched them')
    await untilSettled(cluster)
  })
})

async function insertPoint({ httpUrl }: TestService): Promise<void> {
  const answer = await fetch(`${httpUrl}/points`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ vector: [1, 2], payload: { content_type: 'Text', content: '' } }),
  })
  assert.ok(answer.ok)
}

/** What the next node writes. One of its moves is held back until the node has left, or has had time to leave. */
interface Seen {
  readonly written: Topology[]
  readonly isHeld: boolean
}

function watchTopologiesOf({ documents }: TestCluster): Seen {
  const connect = documents.connect.bind(documents)
  const seen = { written: [] as Topology[], isHeld: false }
  const released = Promise.withResolvers<void>()
  let looks = 0
  documents.connect = (): SharedDocuments => {
    const shared = connect()
    return {
      ...shared,
      get: async (name) => {
        const found = await shared.get(name)
        if (name === 'topology' && found !== undefined && isRefetching(fromJson(found.value))) looks += 1
        // The node reads the topology every second. It leaves right after the first look, unless it waits for the move.
        if (looks === looksMax) released.resolve()
        return found
      },
      put: async (name, value, expected) => {
        if (name !== 'topology') return await shared.put(name, value, expected)
        const topology = fromJson<Topology>(value)
        const isSecondMove = owns(seen.written.at(-1)) && owns(topology) && !seen.isHeld
        if (isSecondMove) {
          seen.isHeld = true
          await released.promise
        }
        const revision = await shared.put(name, value, expected)
        if (revision === undefined) return revision
        seen.written.push(topology)
        if (isRefetching(topology) && !owns(topology)) released.resolve()
        return revision
      },
    }
  }
  return seen
}

function owns(topology: Topology | undefined): boolean {
  return topology?.ownership?.owners.some((owners) => owners.includes('b')) ?? false
}

function isRefetching(topology: Topology): boolean {
  return memberOf(topology, 'b')?.state === 'refetching'
}

const looksMax = 12
