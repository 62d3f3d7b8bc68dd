import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, afterEach, before, describe, it } from 'node:test'
import { DatabaseError, type Reason } from '../src/base/errors.ts'
import { createGrpcClient, createHttpClient, type PointToInsert, type Query } from '../src/client/index.ts'
import { describeBoth } from './support/both-transports.ts'
import {
  type EmbeddingServer,
  failure,
  lettersOf,
  startEmbeddingServer,
  vectorOf,
} from './support/embedding-server.ts'
import { sendJson } from './support/json-http.ts'
import { figureOf } from './support/metrics.ts'
import { apiKey, startTestService } from './support/service.ts'
import type { TestSettings } from './support/settings.ts'

/** Texts instead of vectors, end to end, with an endpoint that embeds a text by its letters. */

const text = (content: string, others: Partial<PointToInsert> = {}): PointToInsert => ({
  payload: { contentType: 'Text', content },
  ...others,
})
const near = (words: string): Query => ({ text: words, metric: 'Euclidean', limit: 1 })

async function refusal(
  work: Promise<unknown>,
): Promise<{ readonly reason: Reason; readonly message: string }> {
  try {
    await work
  } catch (error) {
    if (error instanceof DatabaseError) return { reason: error.reason, message: error.message }
    throw error
  }
  throw new Error('it was not refused')
}

const missing = 'the service has no embeddings, set EMBEDDINGS_URL and EMBEDDINGS_MODEL, or send a vector'

describe('with an embedding endpoint', () => {
  let endpoint: EmbeddingServer
  before(async () => {
    endpoint = await startEmbeddingServer()
  })
  after(() => endpoint[Symbol.asyncDispose]())
  const settings = (): TestSettings => ({
    EMBEDDINGS_URL: endpoint.url,
    EMBEDDINGS_MODEL: 'letters',
    EMBEDDINGS_API_KEY: 'sk-secret',
    embeddingsMaxTextBytes: 1000,
  })

  describeBoth(
    'texts',
    (transport) => {
      it('replace vectors in inserts and searches', async () => {
        const { client } = transport
        const one = await client.insert(text('aaab'))
        const [two, three] = await client.insertBatch([text('bbb'), text('caption', { text: 'ccc' })])
        assert.deepEqual([...(await client.get(one)).vector], vectorOf('aaab'))
        assert.deepEqual([...(await client.get(three!)).vector], vectorOf('ccc'))
        assert.equal((await client.get(three!)).payload.content, 'caption')
        assert.deepEqual(await client.search(near('bb')), [two])
        const queries = [near('aaa'), { ...near(''), text: undefined, vector: vectorOf('cc') }, near('bbbb')]
        assert.deepEqual(await client.searchBatch(queries), [[one], [three], [two]])
        const include = { distance: true, payload: true }
        const { hits } = await client.searchHits({ ...near('aaab'), include })
        assert.equal(hits[0]!.distance, 0)
      })

      it('may be mixed with vectors in a batch', async () => {
        const { client } = transport
        const ids = await client.insertBatch([text('ab'), text('x', { vector: [9, 9, 9, 9] }), text('bc')])
        const vectors = await Promise.all(ids.map(async (id) => [...(await client.get(id)).vector]))
        assert.deepEqual(vectors, [vectorOf('ab'), [9, 9, 9, 9], vectorOf('bc')])
      })

      it('are embedded for puts, and for patches only on request', async () => {
        const { client } = transport
        const id = randomUUID()
        await client.put(id, text('aa'))
        assert.deepEqual([...(await client.get(id)).vector], vectorOf('aa'))
        await client.put(id, text('picture', { text: 'ab' }))
        assert.deepEqual([...(await client.get(id)).vector], vectorOf('ab'))
        await client.patch(id, { content: 'ccc' })
        assert.deepEqual([...(await client.get(id)).vector], vectorOf('ab'))
        await client.patch(id, { content: 'bbb', text: 'bbb' })
        const { vector, payload } = await client.get(id)
        assert.deepEqual([[...vector], payload.content], [vectorOf('bbb'), 'bbb'])
      })

      it('belong to the request that an idempotency key identifies', async () => {
        const { client } = transport
        const idempotencyKey = randomUUID()
        const stored = await client.insert(text('aabb'), { idempotencyKey })
        assert.equal(await client.insert(text('aabb'), { idempotencyKey }), stored)
        const others = [
          text('aab'),
          text('aabb', { text: 'aabb' }),
          text('aabb', { vector: vectorOf('aabb') }),
        ]
        for (const other of others) {
          assert.match((await refusal(client.insert(other, { idempotencyKey }))).message, /idempotency/)
        }
        const batchKey = { idempotencyKey: randomUUID() }
        const batch = [text('a'), text('b', { text: 'c' })]
        assert.deepEqual(await client.insertBatch(batch, batchKey), await client.insertBatch(batch, batchKey))
      })

      it('are not embedded if the request is refused anyway', async () => {
        const { client } = transport
        const sent = endpoint.requests.length
        const bad: (() => Promise<unknown>)[] = [
          () => client.insertBatch([text(randomUUID()), text('x', { vector: [1, 2] })]),
          () => client.insert(text(randomUUID(), { id: 'no-uuid' })),
          () => client.search({ ...near(randomUUID()), limit: 0 }),
          () => client.put('no-uuid', text(randomUUID())),
          () => client.patch(randomUUID(), { text: randomUUID(), unset: [''] }),
        ]
        for (const each of bad) assert.equal((await refusal(each())).reason, 'invalid_argument')
        assert.equal(endpoint.requests.length, sent)
      })

      it('that cannot be embedded are refused, and the message names the field', async () => {
        const { client } = transport
        const cases: readonly (readonly [() => Promise<unknown>, RegExp])[] = [
          [
            () => client.insert(text('a', { text: 'b', vector: [1, 2, 3, 4] })),
            /^text and vector are both given/,
          ],
          [() => client.insert(text(' \n')), /^payload\.content is blank/],
          [() => client.insert(text('a', { text: '' })), /^text is blank/],
          [
            () => client.insertBatch([text('a'), text('é'.repeat(501))]),
            /^vectors\[1\]\.payload\.content has 1002 bytes, the most that is embedded is 1000/,
          ],
          [
            () => client.insert({ payload: { contentType: 'Image', content: 'x.png' } }),
            /^vector is missing: of an Image, send a vector, or a text that describes it/,
          ],
          [() => client.search({ ...near('a'), id: randomUUID() }), /^text and (near_)?id are both given/],
          [
            () => client.searchBatch([near('a'), { ...near('a'), vector: [1] }]),
            /^queries\[1\]\.text and queries\[1\]\.(query_)?vector are both given/,
          ],
          [() => client.search(near('')), /^text is blank/],
        ]
        for (const [work, message] of cases) {
          const refused = await refusal(work())
          assert.equal(refused.reason, 'invalid_argument')
          assert.match(refused.message, message)
        }
      })

      it('whose vectors have the wrong length for a collection are refused, stating both lengths', async () => {
        const { client } = transport
        await client.collections.put('narrow', { dimension: 2 })
        const narrow = client.collection('narrow')
        const message = (path: string): string =>
          `${path}, embedded by letters, has 4 dimensions, the collection has 2`
        assert.equal((await refusal(narrow.insert(text('a')))).message, message('payload.content'))
        const batch = narrow.insertBatch([text('x', { vector: [1, 2] }), text('a')])
        assert.equal((await refusal(batch)).message, message('vectors[1].payload.content'))
        assert.equal((await refusal(narrow.search(near('a')))).message, message('text'))
        assert.equal((await refusal(narrow.patch(randomUUID(), { text: 'a' }))).reason, 'invalid_argument')
        assert.equal(await narrow.count(), 0)
      })

      it('fix the dimension of an empty collection, also for vectors in the same batch', async () => {
        const { client } = transport
        await client.collections.put('fresh')
        const fresh = client.collection('fresh')
        const mixed = fresh.insertBatch([text('x', { vector: [1, 2] }), text('a')])
        assert.match(
          (await refusal(mixed)).message,
          /^vectors\[1\]\.payload\.content, embedded by letters, has 4/,
        )
        await fresh.insertBatch([text('a'), text('b')])
        assert.equal((await client.collections.get('fresh')).dimension, 4)
      })

      it('are reported one by one if the request continues after errors', async () => {
        const { client } = transport
        endpoint.respond = (request) =>
          request.texts.some((each) => each.includes('long')) ? failure(400, 'too long') : lettersOf(request)
        const before = await client.count()
        const points = [text('a'), text(' '), text('long'), text('b'), text('x', { vector: [1] })]
        const { ids, errors } = await client.insertEach(points)
        assert.deepEqual(
          ids.map((id) => id !== null),
          [true, false, false, true, false],
        )
        assert.deepEqual(
          errors.map(({ index }) => index),
          [1, 2, 4],
        )
        assert.match(
          errors[1]!.message,
          /^vectors\[2\]\.payload\.content: the embedding endpoint .* refuses the text \(400\): too long$/,
        )
        assert.deepEqual([...(await client.get(ids[3]!)).vector], vectorOf('b'))
        const whole = await refusal(client.insertBatch([text('ab'), text('long')]))
        assert.equal(whole.reason, 'invalid_argument')
        assert.match(whole.message, /^vectors\[1\]\.payload\.content: /)
        assert.equal(await client.count(), before + 2)
        endpoint.respond = lettersOf
      })

      it('are embedded by the model that the collection names', async () => {
        const { collections } = transport.client
        await collections.put('named')
        assert.equal((await collections.get('named')).embeddingModel, 'letters')
        for (const { embeddingModel } of await collections.list()) assert.equal(embeddingModel, 'letters')
      })
    },
    settings,
  )

  describeBoth(
    'a batch that continues after errors and is repeated under its key',
    (transport) => {
      const points = [text('a'), text('long'), text('b')]
      const refusing =
        (word: string): EmbeddingServer['respond'] =>
        (request) =>
          request.texts.some((each) => each.includes(word)) ? failure(400, 'too long') : lettersOf(request)
      const answers = { refuses: refusing('long'), accepts: lettersOf, refusesAnother: refusing('b') }

      afterEach(() => {
        endpoint.respond = lettersOf
      })

      it('gets the same answer if the same texts are refused', async () => {
        for (const respond of [answers.refuses, answers.accepts]) {
          endpoint.respond = respond
          const options = { idempotencyKey: randomUUID() }
          const first = await transport.client.insertEach(points, options)
          const count = await transport.client.count()
          assert.deepEqual(await transport.client.insertEach(points, options), first)
          assert.equal(await transport.client.count(), count)
        }
      })

      it('is refused if others are, because its points cannot be told apart', async () => {
        for (const [before, after] of [
          [answers.refuses, answers.accepts],
          [answers.accepts, answers.refuses],
          [answers.refuses, answers.refusesAnother],
        ] as const) {
          endpoint.respond = before
          const options = { idempotencyKey: randomUUID() }
          const first = await transport.client.insertEach(points, options)
          const count = await transport.client.count()
          endpoint.respond = after
          const { message } = await refusal(transport.client.insertEach(points, options))
          assert.match(message, /or this one when other texts could not be embedded/)
          assert.equal(await transport.client.count(), count)
          endpoint.respond = before
          assert.deepEqual(await transport.client.insertEach(points, options), first)
        }
      })
    },
    () => ({ ...settings(), embeddingsCacheBytes: 0 }),
  )

  it('a service whose endpoint fails says so, stores nothing, and recovers with the endpoint', async () => {
    await using service = await startTestService({ ...settings(), embeddingsTimeoutMs: 60_000 })
    const point = { payload: { content_type: 'Text', content: 'abc' } }
    endpoint.respond = () => failure(401, 'Incorrect API key provided: sk-secret')
    const { status, headers, body } = await sendJson(`${service.httpUrl}/points`, 'POST', point)
    assert.equal(status, 503)
    assert.equal(headers.get('retry-after'), '1')
    assert.equal(
      body,
      `the embedding endpoint ${endpoint.host} refuses the key (401): check EMBEDDINGS_API_KEY`,
    )
    const client = createGrpcClient({ address: service.grpcAddress, apiKey, retries: 0 })
    assert.equal((await refusal(client.search(near('a')))).message, body)
    assert.equal(await figureOf(service, 'vicinal_points'), 0)
    endpoint.respond = lettersOf
    await client.insert(text('abc'))
    assert.equal(await figureOf(service, 'vicinal_points'), 1)
    await client.close()
  })

  it('a caller that aborts ends the request to the endpoint', async () => {
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
    endpoint.respond = () => {
      arrive()
      return undefined
    }
    await using service = await startTestService(settings())
    const stop = new AbortController()
    const work = fetch(`${service.httpUrl}/points/search`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ text: 'abcabc', similarity: 'Cosine', limit: 1 }),
      signal: stop.signal,
    })
    await arrived
    stop.abort()
    await assert.rejects(work)
    await endpoint.requests.at(-1)!.closed

    // A deadline that passes before the endpoint is called proves nothing. The next call then gets more time.
    for (let timeoutMs = 300; endpoint.requests.at(-1)!.texts[0] !== 'cab'; timeoutMs *= 2) {
      const deadline = createGrpcClient({ address: service.grpcAddress, apiKey, retries: 0, timeoutMs })
      assert.equal((await refusal(deadline.search(near('cab')))).reason, 'deadline_exceeded')
      await deadline.close()
    }
    await endpoint.requests.at(-1)!.closed
    endpoint.respond = lettersOf
  })

  it('a service that stops does not wait for the endpoint', async () => {
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
    endpoint.respond = () => {
      arrive()
      return undefined
    }
    const service = await startTestService({ ...settings(), SHUTDOWN_TIMEOUT_MS: '100' })
    const client = createHttpClient({ baseUrl: service.httpUrl, retries: 0 })
    const work = refusal(client.insert(text('abcc')))
    await arrived
    await service[Symbol.asyncDispose]()
    await work
    await endpoint.requests.at(-1)!.closed
    endpoint.respond = lettersOf
  })
})

describeBoth('without an embedding endpoint', (transport) => {
  it('a missing vector is refused as usual', async () => {
    const { client } = transport
    assert.equal((await refusal(client.insert(text('a')))).message, 'vector is missing')
    const batch = client.insertBatch([text('x', { vector: [1, 2] }), text('a')])
    assert.equal((await refusal(batch)).message, 'vectors[1].vector is missing')
    assert.equal((await refusal(client.put(randomUUID(), text('a')))).message, 'vector is missing')
  })

  it('texts are refused, and the message says what is missing', async () => {
    const { client } = transport
    const id = randomUUID()
    const refused: readonly (readonly [() => Promise<unknown>, string])[] = [
      [() => client.insert(text('a', { text: 'b' })), 'text'],
      [() => client.insertBatch([text('a', { text: 'b' })]), 'vectors[0].text'],
      [() => client.put(id, text('a', { text: 'b' })), 'text'],
      [() => client.search(near('a')), 'text'],
      [() => client.searchBatch([near('a')]), 'queries[0].text'],
    ]
    for (const [work, path] of refused) {
      const { reason, message } = await refusal(work())
      assert.equal(reason, 'invalid_argument')
      assert.equal(message, `${path} cannot be embedded: ${missing}`)
    }
    assert.match(
      (await refusal(client.patch(id, { text: 'b' }))).message,
      /^(patch\.)?text cannot be embedded: /,
    )
  })

  it('collections name no model', async () => {
    const info = await transport.client.collections.get('default')
    assert.ok(!('embeddingModel' in info))
  })
})

describe('a service with incomplete endpoint settings', () => {
  it('does not start', async () => {
    await assert.rejects(
      startTestService({ EMBEDDINGS_URL: 'http://127.0.0.1:1/v1' }),
      /EMBEDDINGS_MODEL is missing/,
    )
    await assert.rejects(startTestService({ EMBEDDINGS_MODEL: 'm' }), /EMBEDDINGS_URL is not/)
  })
})
