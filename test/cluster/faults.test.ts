import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { VectorClient } from '../../src/client/client.ts'
import { createGrpcClient } from '../../src/client/grpc-client.ts'
import { createHttpClient } from '../../src/client/http-client.ts'
import { natsMissing } from '../support/nats-servers.ts'
import { until } from '../support/until.ts'
import { runCampaign } from './campaign.ts'
import { ClusterProcesses, grpcKey } from './cluster-processes.ts'
import type { faults, faultsOfParts } from './faults.ts'

/** `npm run test:cluster` runs the others. */
const short: readonly (keyof typeof faults)[] = [
  'kill -9 of a node',
  "kill -9 of the log's leader",
  'SIGSTOP of a node',
  'kill -9 of everything',
]

const shortOfParts: readonly (keyof typeof faultsOfParts)[] = ['kill -9 of both ends of a move']

/** A minute each, so they run only on request. */
const withoutMutants = process.env.SLOW_MUTANTS !== '1' && 'npm run test:cluster-mutants runs it'

/** What the checker must report for each mutant of mutants.ts. */
const mutants = {
  'no barrier': /a (count|search) of latest .* did not find/,
  'acknowledged before the log': /did not find|has lost/,
  'no gap check': /did not find|differ in|has lost/,
}

describe('a cluster of three nodes and three log servers', { skip: natsMissing() }, () => {
  it('answers as a single copy would, whatever is killed or stopped', async (test) => {
    const { writes, reads } = await runCampaign(short, {
      seed: 1,
      report: (line) => test.diagnostic(line),
    })
    assert.ok(writes > 50 && reads > 50)
  })

  it('answers as a single copy would if each node has a part of the points and partitions move', async (test) => {
    const { writes, reads } = await runCampaign(shortOfParts, {
      seed: 3,
      nodes: 3,
      replicas: 2,
      report: (line) => test.diagnostic(line),
    })
    assert.ok(writes > 30 && reads > 30)
  })

  it('shows no error to clients with the addresses of all nodes when one is killed', async (test) => {
    await using cluster = await ClusterProcesses.start({ logServers: 3, nodes: 3 })
    const { nodes } = cluster
    await until(async () => (await Promise.all(nodes.map((node) => node.isReady()))).every((is) => is))
    const clients = [
      createHttpClient({ baseUrl: nodes.map(({ url }) => url) }),
      createGrpcClient({ address: nodes.map(({ grpcAddress }) => grpcAddress), apiKey: grpcKey }),
    ]
    const ids: string[] = []
    const ends = { reads: [performance.now()], writes: [performance.now()] }
    let isOver = false
    const write = async (client: VectorClient): Promise<void> => {
      while (!isOver) {
        ids.push(
          await client.insert({ vector: [ids.length, 1], payload: { contentType: 'Text', content: '' } }),
        )
        ends.writes.push(performance.now())
        await pause(5)
      }
    }
    const read = async (client: VectorClient): Promise<void> => {
      while (!isOver) {
        await client.search({ vector: [1, 2], limit: 3, metric: 'Euclidean' })
        ends.reads.push(performance.now())
        await pause(5)
      }
    }
    const working = Promise.all(
      clients.flatMap((client) => [write(client), write(client), read(client), read(client)]),
    )
    const more = async (count: number): Promise<void> => {
      const [reads, writes] = [ends.reads.length + count, ends.writes.length + count]
      await Promise.race([working, until(() => ends.reads.length >= reads && ends.writes.length >= writes)])
    }
    for (const node of nodes.slice(0, 2)) {
      await more(50)
      const killedMs = performance.now()
      await node.kill()
      await more(100)
      for (const [kind, all] of Object.entries(ends)) {
        const after = [killedMs, ...all.filter((ms) => ms > killedMs)]
        const longest = Math.max(...after.slice(1).map((ms, at) => ms - after[at]!))
        test.diagnostic(`longest time without answers to ${kind}: ${longest.toFixed(0)} ms`)
      }
      await node.start()
      await until(async () => await node.isReady())
    }
    isOver = true
    await working
    for (const client of clients) {
      assert.equal(await client.count(undefined, { consistency: 'latest' }), ids.length)
      await client.close()
    }
  })

  for (const [mutant, message] of Object.entries(mutants)) {
    it(`is found to be wrong with ${mutant}`, { skip: withoutMutants }, async () => {
      const faulty = runCampaign(['SIGSTOP of a node', 'kill -9 of everything'], {
        seed: 2,
        environment: { MUTANT: mutant },
      })
      await assert.rejects(faulty, message)
    })
  }

  it('is found to be wrong with a part that is skipped', { skip: withoutMutants }, async () => {
    const faulty = runCampaign(['kill -9 of a node'], {
      seed: 2,
      nodes: 3,
      replicas: 2,
      environment: { MUTANT: 'a part that is passed over' },
    })
    await assert.rejects(faulty, /did not find|differ in|has lost|has compared/)
  })
})
