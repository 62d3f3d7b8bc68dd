import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RawHttp } from './support/raw-http.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'

/** The CORS headers for CORS_ORIGINS. console/test/client-package.test.ts calls from a real browser. */

const app = 'https://app.example.org'
const other = 'https://other.example.org'

describe('a page of another origin', () => {
  it('gets no CORS headers unless the setting names its origin', async () => {
    await using service = await startTestService()
    const asked = await preflight(service, app)
    assert.equal(asked.status, 405)
    assert.deepEqual(corsHeaders(asked), {})
    assert.deepEqual(corsHeaders(await count(service, { origin: app })), {})
  })

  it('may call only from the named origins', async () => {
    await using service = await startTestService({ CORS_ORIGINS: `${app},http://localhost:5173` })
    const asked = await preflight(service, app)
    assert.equal(asked.status, 204)
    assert.equal(asked.headers.get('access-control-allow-origin'), app)
    assert.match(asked.headers.get('access-control-allow-methods')!, /PATCH, DELETE/)
    assert.match(asked.headers.get('access-control-allow-headers')!, /authorization, idempotency-key/)
    const answered = await count(service, { origin: app })
    assert.equal(answered.status, 200)
    assert.equal(answered.headers.get('access-control-allow-origin'), app)
    assert.match(answered.headers.get('access-control-expose-headers')!, /retry-after/)
    assert.match(answered.headers.get('vary')!, /origin/i)

    for (const response of [await preflight(service, other), await count(service, { origin: other })]) {
      assert.equal(response.headers.get('access-control-allow-origin'), null)
    }
  })

  it('sends the preflight without the key and the call with it, and can read a refusal', async () => {
    await using service = await startTestService({ CORS_ORIGINS: app, HTTP_API_KEY: apiKey })
    assert.equal((await preflight(service, app)).status, 204)
    assert.equal((await count(service, { origin: app, authorization: apiKey })).status, 200)
    const refused = await count(service, { origin: app })
    assert.equal(refused.status, 401)
    assert.equal(refused.headers.get('access-control-allow-origin'), app)
    assert.match(await refused.text(), /^missing or invalid API key/)
  })

  it('can read that the server is busy while its request is still being sent', async () => {
    await using service = await startTestService({ CORS_ORIGINS: app, MAX_BUFFERED_BYTES: '4M' })
    const head = [
      'POST /points HTTP/1.1',
      'host: localhost',
      `origin: ${app}`,
      'content-type: application/json',
      'content-length: 1500000',
      '',
      '{',
    ].join('\r\n')
    const port = Number(new URL(service.httpUrl).port)
    using connections = new DisposableStack()
    const answers = []
    // Together they announce more than the service has room for.
    for (let count = 0; count < 4; count += 1) {
      const connection = connections.use(await RawHttp.open(port))
      connection.write(head)
      answers.push(connection.answer())
    }
    const { status, headers } = await Promise.any(answers)
    assert.equal(status, 429)
    assert.equal(headers['access-control-allow-origin'], app)
    assert.equal(headers['content-type'], 'text/plain; charset=utf-8')
    await Promise.allSettled([connections.dispose(), ...answers])
  })

  it('makes no difference for other clients than browsers', async () => {
    await using plain = await startTestService()
    await using open = await startTestService({ CORS_ORIGINS: app })
    const shown = async (service: TestService): Promise<object> => {
      const answers = [await count(service, {}), await fetch(`${service.httpUrl}/nowhere`)]
      return await Promise.all(
        answers.map(async (answer) => ({
          status: answer.status,
          text: await answer.text(),
          cors: corsHeaders(answer)['access-control-allow-origin'],
        })),
      )
    }
    assert.deepEqual(await shown(open), await shown(plain))
  })
})

function preflight({ httpUrl }: TestService, origin: string): Promise<Response> {
  return fetch(`${httpUrl}/points/count`, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type',
    },
  })
}

function count({ httpUrl }: TestService, headers: Readonly<Record<string, string>>): Promise<Response> {
  return fetch(`${httpUrl}/points/count`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: '{}',
  })
}

function corsHeaders({ headers }: Response): Record<string, string> {
  return Object.fromEntries([...headers].filter(([name]) => name.startsWith('access-control-')))
}
