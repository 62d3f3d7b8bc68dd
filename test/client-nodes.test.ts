import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { VectorClient } from '../src/client/client.ts'
import { createGrpcClient } from '../src/client/grpc-client.ts'
import { createHttpClient } from '../src/client/http-client.ts'
import { freePorts } from './support/free-ports.ts'
import { apiKey, startTestCluster, type TestService } from './support/service.ts'

const point = { vector: [1, 2], payload: { contentType: 'Text', content: 'x' } } as const
const query = { vector: [1, 2], limit: 1, metric: 'Cosine' } as const

type Addresses = (nodes: readonly TestService[]) => readonly string[]

const transports: readonly (readonly [string, Addresses, (addresses: readonly string[]) => VectorClient])[] =
  [
    ['HTTP', (nodes) => nodes.map(({ httpUrl }) => httpUrl), (baseUrl) => createHttpClient({ baseUrl })],
    [
      'gRPC',
      (nodes) => nodes.map(({ grpcAddress }) => grpcAddress),
      (address) => createGrpcClient({ address, apiKey }),
    ],
  ]

for (const [name, addressesOf, clientOf] of transports) {
  describe(`a client over ${name} with the addresses of several nodes`, () => {
    it('goes on without an error when nodes end, one after the other', async () => {
      await using cluster = await startTestCluster(['a', 'b', 'c'])
      const client = clientOf(addressesOf(cluster.services))
      const done: string[] = []
      let isOver = false
      const working = Promise.all(
        [1, 2, 3, 4].map(async () => {
          while (!isOver) {
            const id = await client.insert(point)
            assert.equal((await client.get(id)).id, id)
            assert.equal((await client.search(query)).length, 1)
            assert.ok((await client.count()) > done.length)
            done.push(id)
          }
        }),
      )
      const until = async (count: number): Promise<void> => {
        while (done.length < count) await Promise.race([working, new Promise(setImmediate)])
      }
      await until(20)
      for (const { service } of cluster.services.slice(0, 2)) {
        await service.close()
        await until(done.length + 20)
      }
      isOver = true
      await working
      assert.equal(await client.count(), done.length)
      await client.close()
    })

    it('finds the node that answers', async () => {
      await using cluster = await startTestCluster(['a'])
      const [port] = await freePorts(1)
      const [live] = addressesOf(cluster.services)
      const client = clientOf([live!.replace(/\d+$/, String(port)), live!])
      assert.equal(await client.count(), 0)
      await client.close()
    })

    it('needs at least one', () => {
      assert.throws(() => clientOf([]), /must have at least one address/)
    })
  })
}
