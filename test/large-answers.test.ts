import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createGrpcClient, createHttpClient } from '../src/client/index.ts'
import { ServerProcess, temporaryDirectory } from './support/process.ts'
import { seededRandom } from './support/random.ts'
import { apiKey, startTestService } from './support/service.ts'

describe('answers that are far larger than their requests', () => {
  it('are sent or refused, and neither end the process nor block other requests', {
    timeout: 300_000,
  }, async () => {
    await using directory = await temporaryDirectory()
    await using server = await ServerProcess.start(directory.path, {
      NODE_OPTIONS: '--max-old-space-size=512',
    })
    const client = createHttpClient({ baseUrl: server.httpUrl, retries: 0 })
    const point = (index: number) =>
      ({ vector: [index, 1], payload: { contentType: 'Text', content: '' } }) as const
    for (let from = 0; from < 16_384; from += 4096) {
      await client.insertBatch(Array.from({ length: 4096 }, (_, index) => point(from + index)))
    }
    // Half a megabyte of queries for 160 million ids.
    const query = { vector: [1, 1], metric: 'Euclidean', limit: 16_384 } as const
    const outcome = client.searchBatch(new Array(10_000).fill(query)).then(
      () => 'answered',
      (error) => error.reason,
    )
    for (let isOver = false; !isOver; ) {
      await client.search({ vector: [5, 1], metric: 'Euclidean', limit: 1 })
      isOver = await Promise.race([
        outcome.then(() => true),
        new Promise<false>((resolve) => setTimeout(resolve, 20, false)),
      ])
    }
    assert.match(await outcome, /answered|invalid_argument|overloaded|request_too_large/)
    assert.equal(server.command.child.exitCode, null)
  })

  it('are read only as far as all answers in progress fit together, over both transports', {
    timeout: 300_000,
  }, async () => {
    const [points, contentBytes, callers] = [1000, 10_000, 30]
    await using directory = await temporaryDirectory()
    // All answers together would have 300 MB.
    await using server = await ServerProcess.start(directory.path, {
      NODE_OPTIONS: '--max-old-space-size=200',
      MAX_BUFFERED_BYTES: '32M',
      GRPC_ROOT_PASSWORD: apiKey,
    })
    const http = createHttpClient({ baseUrl: server.httpUrl, retries: 0 })
    const payload = { contentType: 'Text', content: 'x'.repeat(contentBytes) } as const
    for (let from = 0; from < points; from += 250) {
      await http.insertBatch(
        Array.from({ length: 250 }, (_, index) => ({ vector: [from + index, 1], payload })),
      )
    }
    const query = { vector: [1, 1], metric: 'Euclidean', limit: points, include: { payload: true } } as const
    const list = { limit: points }
    for (const client of [http, createGrpcClient({ address: server.grpcAddress, apiKey, retries: 0 })]) {
      const asks = [
        async () => (await client.searchHits(query)).hits.length,
        async () => (await client.searchHitsBatch([query]))[0]!.hits.length,
        async () => (await client.list(list)).points.length,
      ]
      const outcomes = await Promise.all(
        Array.from({ length: callers }, (_, index) =>
          asks[index % asks.length]!().catch((error) => error.reason as string),
        ),
      )
      const refused = outcomes.filter((each) => each === 'overloaded')
      const answered = outcomes.filter((each) => typeof each === 'number' && each > 0)
      assert.ok(refused.length > 0 && answered.length > 0, String(outcomes))
      assert.equal(refused.length + answered.length, callers, String(outcomes))
      // Nothing of the refused ones is kept.
      assert.equal(await asks[0]!(), points)
      await client.close()
    }
    assert.equal(server.command.child.exitCode, null)
  })

  it('may have details up to MAX_BUFFERED_BYTES, and are refused with more, over both transports', async () => {
    const [points, dimension, contentChars] = [1024, 256, 4096]
    await using service = await startTestService({
      MAX_LIMIT: String(points),
      MAX_BUFFERED_BYTES: '4M',
      maxQueuedResults: 4 * points,
    })
    const clients = [
      createHttpClient({ baseUrl: service.httpUrl, retries: 0 }),
      createGrpcClient({ address: service.grpcAddress, apiKey, retries: 0 }),
    ]
    const random = seededRandom(20_261_123)
    const vectors = Array.from({ length: points }, () => Float32Array.from({ length: dimension }, random))
    const payload = { contentType: 'Text', content: 'x'.repeat(contentChars) } as const
    const ids: string[] = []
    for (let from = 0; from < points; from += 512) {
      const batch = vectors.slice(from, from + 512).map((vector) => ({ vector, payload }))
      ids.push(...(await clients[1]!.insertBatch(batch)))
    }
    const vectorOf = new Map(ids.map((id, index) => [id, vectors[index]!]))
    const query = { vector: vectors[0]!, metric: 'Euclidean', limit: points, ef: points } as const
    for (const client of clients) {
      const { hits } = await client.searchHits({ ...query, include: { vector: true } })
      assert.equal(hits.length, points)
      const isWhole = ({ id, vector }: (typeof hits)[number]): boolean =>
        vectorOf.get(id)!.every((value, index) => value === vector![index])
      assert.ok(hits.every(isWhole))
      const tooMuch = client.searchHits({ ...query, include: { vector: true, payload: true } })
      await assert.rejects(tooMuch, {
        reason: 'request_too_large',
        message:
          'what include asks for takes more than 4194304 bytes, the most of one answer (MAX_BUFFERED_BYTES): ask for fewer results or less of each',
      })
      // The limit applies to all queries of a batch together.
      const half = { ...query, limit: 350, include: { vector: true, payload: true } }
      assert.equal((await client.searchHits(half)).hits.length, 350)
      await assert.rejects(client.searchHitsBatch([half, half, half]), { reason: 'request_too_large' })
      await client.close()
    }
  })
})
