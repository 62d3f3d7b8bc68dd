import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import {
  createGrpcClient,
  createHttpClient,
  type PointToInsert,
  type VectorClient,
} from '../src/client/index.ts'
import { figureOf } from './support/metrics.ts'
import { ServerProcess, temporaryDirectory } from './support/process.ts'
import { RawHttp } from './support/raw-http.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'

/** Inserts with a key are stored once, however often and over whichever transport they are repeated. */

function pointsOf(count: number, content = 'content'): PointToInsert[] {
  return Array.from({ length: count }, (_, index) => ({
    vector: [index, 0.1],
    payload: { contentType: 'Text', content: `${content} ${index}` },
  }))
}

describe('inserts with a key', () => {
  let service: TestService
  let grpc: VectorClient
  let http: VectorClient

  before(async () => {
    service = await startTestService()
    grpc = createGrpcClient({ address: service.grpcAddress, apiKey })
    http = createHttpClient({ baseUrl: service.httpUrl })
  })
  after(async () => {
    await grpc.close()
    await service[Symbol.asyncDispose]()
  })

  const pointsStored = (): Promise<number> => figureOf(service, 'vicinal_points')

  it('return the ids of the first one, over either transport, in sequence and concurrently', async () => {
    const stored = await pointsStored()
    const idempotencyKey = randomUUID()
    const points = pointsOf(1000)
    const answers = await Promise.all(
      [http, grpc, http, grpc].map((client) => client.insertBatch(points, { idempotencyKey })),
    )
    await grpc.delete(answers[0]![500]!)
    answers.push(await http.insertBatch(points, { idempotencyKey }))
    answers.push(await grpc.insertBatch(points, { idempotencyKey }))
    for (const ids of answers) assert.deepEqual(ids, answers[0])
    assert.equal(await pointsStored(), stored + 999)
    assert.equal((await http.get(answers[0]![999]!)).payload.content, 'content 999')

    const single = { idempotencyKey: `${randomUUID()} and more` }
    const ids = await Promise.all([http, grpc, http].map((client) => client.insert(points[7]!, single)))
    assert.equal(new Set(ids).size, 1)
    assert.equal(await pointsStored(), stored + 1000)
  })

  it('are the same however JSON spells them, and are refused with other points', async () => {
    const send = async (path: string, body: string): Promise<[number, string]> => {
      const answer = await fetch(`${service.httpUrl}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'Idempotency-Key': key },
        body,
      })
      return [answer.status, await answer.text()]
    }
    const key = randomUUID()
    const first = await send('/points', '{"vector":[1,0.1],"payload":{"content_type":"Text","content":"é"}}')
    assert.equal(first[0], 201)
    const spelled = '{"payload":{"content":"\\u00e9","content_type":"Text"}, "vector":[1e0, 10e-2], "x":1}'
    assert.deepEqual(await send('/points', spelled), first)
    for (const other of [
      '{"vector":[1,0.2],"payload":{"content_type":"Text","content":"é"}}',
      '{"vector":[1,0.1],"payload":{"content_type":"Image","content":"é"}}',
      '{"vector":[1,0.1],"payload":{"content_type":"Text","content":"e"}}',
    ]) {
      const [status, text] = await send('/points', other)
      assert.equal(status, 422)
      assert.match(text, /^another request was stored under this idempotency key: /)
    }
    const [status] = await send('/points/batch', `{"vectors":[${spelled}]}`)
    assert.equal(status, 422)
    // A bad request does not use up its key.
    assert.equal((await send('/points', '{"vector":[1]}'))[0], 400)
    await assert.rejects(http.insertBatch(pointsOf(2), { idempotencyKey: key }), { reason: 'key_reused' })
    await assert.rejects(grpc.insertBatch(pointsOf(2), { idempotencyKey: key }), {
      reason: 'key_reused',
      message: /^another request was stored under this idempotency key: /,
    })
    assert.deepEqual(await http.insertBatch([], { idempotencyKey: key }), [])
  })

  it('need a key of at most 255 printable ASCII characters', async () => {
    const point = JSON.stringify({ vector: [1, 2], payload: { content_type: 'Text', content: 'x' } })
    using over = await RawHttp.open(service.service.httpAddress!.port)
    const faults: readonly (readonly [string, string])[] = [
      ['', 'idempotency-key is empty'],
      ['k'.repeat(256), 'idempotency-key has 256 characters, the maximum is 255'],
      ['schlüssel', 'idempotency-key has characters other than printable ASCII'],
    ]
    for (const [key, fault] of faults) {
      const headers = ['content-type: application/json', `idempotency-key: ${key}`]
      over.request('POST /points', headers, point)
      const { status, body } = await over.answer()
      assert.deepEqual({ status, body }, { status: 400, body: fault })
    }
    for (const client of [grpc, http]) {
      for (const key of ['', 'k'.repeat(256), 'ü', ' k']) {
        await assert.rejects(client.insert(pointsOf(1)[0]!, { idempotencyKey: key }), {
          reason: 'invalid_argument',
          message: /^idempotencyKey /,
        })
      }
      await client.insert(pointsOf(1)[0]!, { idempotencyKey: `~ ${'k'.repeat(253)}` })
    }
  })
})

describe('inserts with a key into a service that is killed', () => {
  it('are stored once when they are repeated after the restart', async () => {
    await using directory = await temporaryDirectory()
    const environment = { GRPC_ROOT_PASSWORD: apiKey }
    const batches = Array.from({ length: 40 }, (_, batch) => ({
      points: pointsOf(25, `batch ${batch}`),
      idempotencyKey: `batch ${batch}`,
    }))
    const answers: (readonly string[] | undefined)[] = []
    for (let life = 0; life < 3; life += 1) {
      await using server = await ServerProcess.start(directory.path, environment)
      // The next life is the retry. Another service may already have the ports of a killed one.
      const clients = [
        createHttpClient({ baseUrl: server.httpUrl, retries: 0 }),
        createGrpcClient({ address: server.grpcAddress, apiKey, retries: 0 }),
      ]
      let answered = 0
      const sending = batches.map(async ({ points, idempotencyKey }, batch) => {
        const client = clients[(batch + life) % 2]!
        const ids = await client.insertBatch(points, { idempotencyKey }).catch(() => undefined)
        if (ids === undefined) return
        assert.deepEqual(ids, answers[batch] ?? ids, `batch ${batch} has other ids`)
        answers[batch] = ids
        answered += 1
        // Kill in the middle of the other inserts, except in the last life.
        if (answered === 5 * (life + 1) && life < 2) server.command.kill('SIGKILL')
      })
      await Promise.all(sending)
      if (life === 2) {
        assert.equal(answered, batches.length)
        assert.equal(await figureOf(server, 'vicinal_points'), 40 * 25)
        const [sample] = answers[39]!
        assert.equal((await clients[0]!.get(sample!)).payload.content, 'batch 39 0')
      }
      await clients[1]!.close()
    }
  })
})
