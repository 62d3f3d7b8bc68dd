import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createGrpcClient, createHttpClient, type VectorClient } from '../../src/client/index.ts'
import { ModelServer, withoutModel } from '../support/model-server.ts'
import { run } from '../support/process.ts'
import { apiKey, startTestService, type TestService } from '../support/service.ts'

/** Texts instead of vectors, with a real model: all-MiniLM-L6-v2, in the server of the examples. */
describe('a service with a real embedding model', { skip: withoutModel }, () => {
  let model: ModelServer
  let service: TestService
  let http: VectorClient
  let grpc: VectorClient

  before(async () => {
    model = await ModelServer.start('sk-of-the-model')
    service = await startTestService({ ...model.settings, embeddingsTimeoutMs: 300_000 })
    http = createHttpClient({ baseUrl: service.httpUrl, retries: 0 })
    grpc = createGrpcClient({ address: service.grpcAddress, apiKey, retries: 0 })
  })
  after(async () => {
    await grpc?.close()
    await service?.[Symbol.asyncDispose]()
    await model?.[Symbol.asyncDispose]()
  })

  const texts = [
    'A bicycle tyre is mended with a patch and some glue.',
    'The price of gold fell on Tuesday.',
    'Cats sleep for most of the day.',
    'To bake bread, one needs flour, water, salt and yeast.',
    'The parliament voted on a new law about taxes.',
  ]

  it('stores the embeddings that the authors of the model publish', async () => {
    const id = await http.insert({ payload: { contentType: 'Text', content: 'This is an example sentence' } })
    const { vector } = await http.get(id)
    assert.equal(vector.length, 384)
    const published = [0.0676569, 0.0634959, 0.0487131, 0.0793049]
    for (const [index, value] of published.entries()) {
      assert.ok(Math.abs(vector[index]! - value) < 1e-4, `${vector[index]} at ${index}, not ${value}`)
    }
    await http.delete(id)
  })

  it('finds texts by meaning, over either transport', async () => {
    const ids = await grpc.insertBatch(
      texts.map((content) => ({ payload: { contentType: 'Text', content } as const })),
    )
    const questions = [
      'how do I repair a flat on my bike?',
      'commodities on the stock market',
      'pets that nap',
      'recipes for a loaf',
      'politics',
    ]
    for (const client of [http, grpc]) {
      const queries = questions.map((text) => ({ text, metric: 'Cosine', limit: 1 }) as const)
      assert.deepEqual(
        await client.searchBatch(queries),
        ids.map((id) => [id]),
      )
    }
    const { stdout } = await run([
      'query',
      '--text',
      questions[2]!,
      '--limit',
      '1',
      '--http',
      service.httpUrl,
    ])
    assert.match(stdout, /Cats sleep/)
  })

  it('embeds many texts in one request, each as it would be alone', async () => {
    const many = Array.from({ length: 100 }, (_, index) => `${texts[index % 5]} (${index})`)
    const payloads = many.map((content) => ({ payload: { contentType: 'Text', content } as const }))
    await http.collections.put('many')
    const ids = await http.collection('many').insertBatch(payloads)
    for (const at of [0, 33, 99]) {
      const [nearest] = (
        await http.collection('many').searchHits({
          text: many[at]!,
          metric: 'Cosine',
          limit: 1,
          include: { distance: true },
        })
      ).hits
      assert.equal(nearest!.id, ids[at])
      assert.ok(nearest!.distance! < 1e-6)
    }
  })

  it('reports why the server refuses a request', async () => {
    const query = { text: 'x', metric: 'Cosine', limit: 1 } as const
    const cases = [
      [{ EMBEDDINGS_API_KEY: 'wrong' }, /refuses the key \(401\): check EMBEDDINGS_API_KEY/],
      [
        { EMBEDDINGS_MODEL: 'another' },
        /has no embeddings of another \(404\): .*: model must be all-MiniLM-L6-v2/,
      ],
      [
        { EMBEDDINGS_URL: model.settings.EMBEDDINGS_URL!.replace(/\/v1$/, '/v2') },
        /\(404\): .*: there is nothing at \/v2/,
      ],
    ] as const
    for (const [changes, message] of cases) {
      await using other = await startTestService({ ...model.settings, ...changes })
      const client = createHttpClient({ baseUrl: other.httpUrl, retries: 0 })
      await assert.rejects(client.search(query), message)
    }
  })
})
