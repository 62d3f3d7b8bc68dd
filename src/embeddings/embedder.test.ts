import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  answerOf,
  type EmbeddingServer,
  failure,
  lettersOf,
  startEmbeddingServer,
  vectorOf,
} from '../../test/support/embedding-server.ts'
import { freePort } from '../../test/support/free-ports.ts'
import { DatabaseError, type Reason } from '../base/errors.ts'
import { Embedder, type EmbedderOptions } from './embedder.ts'

/** An embedder over a test server, with its recorded outcomes and counts. */
interface Subject {
  readonly embedder: Embedder
  readonly outcomes: string[]
  readonly counted: { texts: number; cached: number }
}

function embedderOf({ url }: Pick<EmbeddingServer, 'url'>, changes: Partial<EmbedderOptions> = {}): Subject {
  const outcomes: string[] = []
  const counted = { texts: 0, cached: 0 }
  const embedder = new Embedder({
    url,
    model: 'letters',
    apiKey: undefined,
    timeoutMs: 60_000,
    batchSize: 32,
    maxRequests: 4,
    maxTexts: 1000,
    maxTextBytes: 1000,
    cacheBytes: 1_000_000,
    onRequest: (outcome) => outcomes.push(outcome),
    onTexts: (texts, cached) => {
      counted.texts += texts
      counted.cached += cached
    },
    ...changes,
  })
  return { embedder, outcomes, counted }
}

async function failureOf(work: Promise<unknown>): Promise<DatabaseError> {
  try {
    await work
  } catch (error) {
    if (error instanceof DatabaseError) return error
    throw error
  }
  throw new Error('it did not fail')
}

const numbersOf = (embeddings: readonly (Float32Array | DatabaseError)[]): unknown[] =>
  embeddings.map((each) => (each instanceof Float32Array ? [...each] : each.reason))

describe('texts', () => {
  it('are embedded in order, with model and key', async () => {
    await using server = await startEmbeddingServer()
    const { embedder, outcomes } = embedderOf(server, { apiKey: 'a-key' })
    assert.deepEqual(numbersOf(await embedder.embed(['aab', 'c', ''])), [
      [2, 1, 0, 1],
      [0, 0, 1, 1],
      [0, 0, 0, 1],
    ])
    const [request] = server.requests
    assert.equal(request!.path, '/v1/embeddings')
    assert.equal(request!.authorization, 'Bearer a-key')
    assert.equal(request!.model, 'letters')
    assert.deepEqual(outcomes, ['ok'])
  })

  it('are ordered by the index in the answer', async () => {
    await using server = await startEmbeddingServer(({ texts }) => {
      const data = texts.map((text, index) => ({ index, embedding: vectorOf(text) })).reverse()
      return { body: { data } }
    })
    const { embedder } = embedderOf(server)
    assert.deepEqual(numbersOf(await embedder.embed(['a', 'b'])), [vectorOf('a'), vectorOf('b')])
  })

  it('get their own vectors even if a string in the answer looks like a vector', async () => {
    await using server = await startEmbeddingServer(({ texts }) => {
      const data = texts.map((text, index) => ({
        note: '"embedding":[7,7,7,7]',
        index,
        embedding: vectorOf(text),
      }))
      return { body: { data } }
    })
    const { embedder } = embedderOf(server)
    assert.deepEqual(numbersOf(await embedder.embed(['a', 'b'])), [vectorOf('a'), vectorOf('b')])
  })

  it('of many calls share requests, and the same text is sent once', async () => {
    await using server = await startEmbeddingServer()
    const { embedder } = embedderOf(server, { batchSize: 3 })
    const calls = ['a', 'b', 'a', 'c', 'ab', 'a'].map((text) => embedder.embed([text]))
    const found = await Promise.all(calls)
    assert.deepEqual(
      found.map(numbersOf),
      ['a', 'b', 'a', 'c', 'ab', 'a'].map((text) => [vectorOf(text)]),
    )
    // On a busy machine, a late call may be sent in a separate request.
    assert.deepEqual(server.requests.flatMap(({ texts }) => texts).sort(), ['a', 'ab', 'b', 'c'])
    assert.ok(server.requests.every(({ texts }) => texts.length <= 3))
    assert.ok(server.requests.length < calls.length)
  })

  it('wait while the maximum number of requests is running', async () => {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>()
    await using server = await startEmbeddingServer(async (request) => {
      await opened
      return lettersOf(request)
    })
    const { embedder } = embedderOf(server, { batchSize: 1, maxRequests: 2 })
    const work = embedder.embed(['a', 'b', 'c', 'ab'])
    while (server.requests.length < 2) await new Promise((resolve) => setImmediate(resolve))
    assert.equal(embedder.stats.waitingTexts, 4)
    open()
    assert.deepEqual(numbersOf(await work), ['a', 'b', 'c', 'ab'].map(vectorOf))
    assert.equal(server.requests.length, 4)
    assert.equal(embedder.stats.waitingTexts, 0)
  })

  it('of a small call do not wait for all texts of a large call, which still makes progress', async () => {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>()
    await using server = await startEmbeddingServer(async (request) => {
      await opened
      return lettersOf(request)
    })
    const { embedder } = embedderOf(server, { batchSize: 2, maxRequests: 1 })
    const large = Array.from({ length: 6 }, (_, index) => 'a'.repeat(index + 1))
    const work = [embedder.embed(large)]
    while (server.requests.length === 0) await new Promise((resolve) => setImmediate(resolve))
    // One after the other: on a busy machine, a call can take turns before it joins the queue.
    for (const texts of [['b'], ['c', 'aaaaaa']]) {
      const before = embedder.stats.waitingTexts
      work.push(embedder.embed(texts))
      while (embedder.stats.waitingTexts === before) await new Promise((resolve) => setImmediate(resolve))
    }
    open()
    for (const [index, texts] of [large, ['b'], ['c', 'aaaaaa']].entries()) {
      assert.deepEqual(numbersOf(await work[index]!), texts.map(vectorOf))
    }
    const sent = server.requests.map(({ texts }) => texts)
    assert.deepEqual(sent, [
      ['a', 'aa'],
      ['b', 'aaa'],
      ['c', 'aaaa'],
      ['aaaaaa', 'aaaaa'],
    ])
  })

  it('that were embedded before are not sent again until they are evicted', async () => {
    await using server = await startEmbeddingServer()
    const { embedder, counted } = embedderOf(server, { cacheBytes: 2 * (16 + 300) })
    await embedder.embed(['a', 'b'])
    assert.deepEqual(numbersOf(await embedder.embed(['a'])), [vectorOf('a')])
    assert.equal(server.requests.length, 1)
    assert.deepEqual(counted, { texts: 3, cached: 1 })
    await embedder.embed(['c'])
    await embedder.embed(['a'])
    assert.deepEqual(
      server.requests.map(({ texts }) => texts),
      [['a', 'b'], ['c']],
    )
    await embedder.embed(['b'])
    assert.deepEqual(server.requests.at(-1)!.texts, ['b'])
    assert.ok(embedder.stats.cacheBytes <= 2 * (16 + 300))
  })

  it('have separate vectors: changing one does not change another', async () => {
    await using server = await startEmbeddingServer()
    const { embedder } = embedderOf(server)
    const [first] = (await embedder.embed(['a'])) as [Float32Array]
    first.fill(9)
    assert.deepEqual(numbersOf(await embedder.embed(['a'])), [vectorOf('a')])
  })

  it('beyond the limit are refused: permanently for one call, temporarily for several', async () => {
    await using server = await startEmbeddingServer(() => undefined)
    const { embedder } = embedderOf(server, { maxTexts: 2 })
    const tooMany = await failureOf(embedder.embed(['a', 'b', 'c']))
    assert.equal(tooMany.reason, 'request_too_large')
    assert.match(tooMany.message, /3 texts to embed, the maximum is 2/)
    const first = embedder.embed(['a', 'b'])
    // A text that is already waiting does not count again.
    const same = embedder.embed(['b'])
    while (embedder.stats.waitingTexts < 2) await new Promise((resolve) => setImmediate(resolve))
    const refused = await failureOf(embedder.embed(['c']))
    assert.equal(refused.reason, 'overloaded')
    embedder.close()
    for (const work of [first, same]) assert.equal((await failureOf(work)).reason, 'shutting_down')
    assert.equal((await failureOf(embedder.embed(['a']))).reason, 'shutting_down')
  })
})

describe('a cancelled call', () => {
  it('ends immediately, and its request is aborted', async () => {
    await using server = await startEmbeddingServer(() => undefined)
    const { embedder, outcomes } = embedderOf(server)
    const stop = new AbortController()
    const work = failureOf(embedder.embed(['a'], stop.signal))
    while (server.requests.length === 0) await new Promise((resolve) => setImmediate(resolve))
    stop.abort(new DatabaseError('deadline_exceeded', 'too late'))
    assert.equal((await work).reason, 'deadline_exceeded')
    await server.requests[0]!.closed
    assert.deepEqual(outcomes, ['cancelled'])
    assert.equal(embedder.stats.waitingTexts, 0)
    server.respond = lettersOf
    assert.deepEqual(numbersOf(await embedder.embed(['a'])), [vectorOf('a')])
  })

  it('does not end other calls that wait for the same request', async () => {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>()
    await using server = await startEmbeddingServer(async (request) => {
      await opened
      return lettersOf(request)
    })
    const { embedder, outcomes } = embedderOf(server)
    const stop = new AbortController()
    const cancelled = failureOf(embedder.embed(['a', 'b'], stop.signal))
    const other = embedder.embed(['b', 'c'])
    while (embedder.stats.waitingTexts < 3 || server.requests.length === 0) {
      await new Promise((resolve) => setImmediate(resolve))
    }
    stop.abort()
    assert.equal((await cancelled).reason, 'cancelled')
    open()
    assert.deepEqual(numbersOf(await other), [vectorOf('b'), vectorOf('c')])
    // On a busy machine, the second call may be sent in a separate request.
    assert.deepEqual(new Set(outcomes), new Set(['ok']))
  })

  it('removes texts that no other call needs from the queue', async () => {
    await using server = await startEmbeddingServer(() => undefined)
    const { embedder } = embedderOf(server, { batchSize: 1, maxRequests: 1 })
    const stop = new AbortController()
    const kept = failureOf(embedder.embed(['a']))
    while (server.requests.length === 0) await new Promise((resolve) => setImmediate(resolve))
    const cancelled = failureOf(embedder.embed(['b', 'c'], stop.signal))
    while (embedder.stats.waitingTexts < 3) await new Promise((resolve) => setImmediate(resolve))
    stop.abort()
    await cancelled
    assert.equal(embedder.stats.waitingTexts, 1)
    embedder.close()
    await kept
    assert.equal(server.requests.length, 1)
  })
})

describe('a failing endpoint', () => {
  it('gets a retry after it was rate limited, not before the time that it names', async () => {
    await using server = await startEmbeddingServer()
    const times: number[] = []
    server.respond = (request) => {
      times.push(performance.now())
      return times.length === 1 ? failure(429, 'slow down', { 'retry-after': '1' }) : lettersOf(request)
    }
    const { embedder, outcomes } = embedderOf(server)
    assert.deepEqual(numbersOf(await embedder.embed(['a'])), [vectorOf('a')])
    assert.deepEqual(outcomes, ['rate_limited', 'ok'])
    assert.ok(times[1]! - times[0]! >= 990)
  })

  it('gets no retry if the time that it names is beyond the timeout', async () => {
    await using server = await startEmbeddingServer(() =>
      failure(429, 'slow down', { 'retry-after': '3600' }),
    )
    const { embedder } = embedderOf(server)
    const { reason, message } = await failureOf(embedder.embed(['a']))
    assert.equal(reason, 'embeddings_unavailable')
    assert.equal(
      message,
      `the embedding endpoint ${server.host} has too many requests (429): try again later: slow down`,
    )
    assert.equal(server.requests.length, 1)
  })

  it('gets a few retries with back-off after server errors', async () => {
    await using server = await startEmbeddingServer(() => failure(500, 'out of memory'))
    const { embedder, outcomes } = embedderOf(server)
    const { reason, message } = await failureOf(embedder.embed(['a']))
    assert.equal(reason, 'embeddings_unavailable')
    assert.equal(
      message,
      `the embedding endpoint ${server.host} failed (500): look at its log: out of memory`,
    )
    assert.deepEqual(outcomes, ['server_error', 'server_error', 'server_error', 'server_error'])
  })

  it('is named in the error if it cannot be reached', async () => {
    const host = `127.0.0.1:${await freePort()}`
    const { embedder, outcomes } = embedderOf({ url: `http://${host}/v1` })
    const { reason, message } = await failureOf(embedder.embed(['a']))
    assert.equal(reason, 'embeddings_unavailable')
    const what = `the embedding endpoint ${host} cannot be reached (ECONNREFUSED)`
    assert.equal(message, `${what}: check that it runs, and EMBEDDINGS_URL`)
    assert.deepEqual(new Set(outcomes), new Set(['unreachable']))
  })

  it('is not waited for longer than the timeout', async () => {
    await using server = await startEmbeddingServer(() => undefined)
    const { embedder, outcomes } = embedderOf(server, { timeoutMs: 200 })
    const { reason, message } = await failureOf(embedder.embed(['a']))
    assert.equal(reason, 'embeddings_unavailable')
    assert.equal(message, `the embedding endpoint ${server.host} has not answered within 200 ms`)
    assert.deepEqual(outcomes, ['timeout'])
  })

  it('that refuses the key gets no retry, and the key is never shown', async () => {
    await using server = await startEmbeddingServer(({ authorization }) =>
      failure(401, `wrong key: ${authorization}`),
    )
    const { embedder } = embedderOf(server, { apiKey: 'sk-secret' })
    const { message } = await failureOf(embedder.embed(['a']))
    assert.equal(
      message,
      `the embedding endpoint ${server.host} refuses the key (401): check EMBEDDINGS_API_KEY`,
    )
    server.respond = ({ authorization }) => failure(404, `no model for ${authorization}`)
    const other = await failureOf(embedder.embed(['a']))
    assert.match(other.message, /has no embeddings of letters \(404\): check .*: no model for Bearer …$/)
    assert.equal(server.requests.length, 2)
  })

  it('that redirects is not followed', async () => {
    await using elsewhere = await startEmbeddingServer()
    await using server = await startEmbeddingServer(() => ({
      status: 308,
      headers: { location: `${elsewhere.url}/embeddings` },
      body: '',
    }))
    const { embedder } = embedderOf(server, { apiKey: 'sk-secret' })
    assert.equal((await failureOf(embedder.embed(['a']))).reason, 'embeddings_unavailable')
    assert.equal(elsewhere.requests.length, 0)
  })

  const badAnswers: Readonly<Record<string, readonly [unknown, RegExp]>> = {
    'that is not JSON': ['<html>', /it is not JSON/],
    'that is truncated': ['{"data":[{"embedding":[1,2', /it is not JSON/],
    'without data': [{ vectors: [] }, /it has no list `data`/],
    'that is null': ['null', /it has no list `data`/],
    'with fewer embeddings than texts': [answerOf([[1, 2]]).body, /it has 1 embeddings for 2 texts/],
    'with more embeddings than texts': [answerOf([[1], [1], [1]]).body, /it has 3 embeddings for 2 texts/],
    'with embeddings of different lengths': [answerOf([[1, 2], [1]]).body, /have 2 and 1 dimensions/],
    'with an empty embedding': [answerOf([[1], []]).body, /embedding has 0 dimensions/],
    'with elements that are not numbers': [answerOf([[1], [null]]).body, /embedding\[0\] is null/],
    'with numbers beyond float32': [answerOf([[1e39], [1]]).body, /embedding\[0\] is 1e\+39/],
    'with embeddings in another encoding': [
      {
        data: [
          { index: 0, embedding: 'AACAPw==' },
          { index: 1, embedding: 'AACAPw==' },
        ],
      },
      /data\[0\]\.embedding is not an array of numbers/,
    ],
    'with an index twice': [
      {
        data: [
          { index: 0, embedding: [1] },
          { index: 0, embedding: [1] },
        ],
      },
      /data\[1\] has the index 0/,
    ],
    'with a number in place of an embedding': [
      {
        data: [
          { index: 0, embedding: 0 },
          { index: 1, embedding: 1 },
        ],
      },
      /embedding is not an array of numbers/,
    ],
  }
  for (const [name, [body, fault]] of Object.entries(badAnswers)) {
    it(`with an answer ${name} is reported with its fault`, async () => {
      await using server = await startEmbeddingServer(() => ({ body }))
      const { embedder, outcomes } = embedderOf(server)
      const { reason, message } = await failureOf(embedder.embed(['a', 'b']))
      assert.equal(reason, 'embeddings_unavailable')
      assert.match(message, fault)
      assert.ok(message.includes(server.host))
      assert.deepEqual(outcomes, ['bad_answer'])
    })
  }
})

describe('a text that the endpoint refuses', () => {
  const tooLong = (texts: readonly string[]): boolean => texts.some((text) => text.includes('long'))

  it('fails alone, whichever texts were sent with it', async () => {
    await using server = await startEmbeddingServer((request) =>
      tooLong(request.texts) ? failure(400, 'the text has 9000 tokens, 512 are allowed') : lettersOf(request),
    )
    const { embedder } = embedderOf(server)
    const texts = ['a', 'b', 'long', 'c', 'ab']
    const embeddings = await embedder.embed(texts)
    const expected: (number[] | Reason)[] = texts.map(vectorOf)
    expected[2] = 'invalid_argument'
    assert.deepEqual(numbersOf(embeddings), expected)
    const { message } = embeddings[2] as DatabaseError
    assert.equal(
      message,
      `the embedding endpoint ${server.host} refuses the text (400): the text has 9000 tokens, 512 are allowed`,
    )
    assert.equal(embedder.stats.waitingTexts, 0)
  })

  it('may only exceed the batch limit: then smaller batches are sent', async () => {
    await using server = await startEmbeddingServer((request) =>
      request.texts.length > 2 ? failure(413, 'batch too large') : lettersOf(request),
    )
    const { embedder } = embedderOf(server)
    const texts = ['a', 'b', 'c', 'ab', 'bc']
    assert.deepEqual(numbersOf(await embedder.embed(texts)), texts.map(vectorOf))
  })
})
