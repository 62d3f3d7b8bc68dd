import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { apiKey, startTestCluster, startTestService } from './support/service.ts'

/** Requests that a web page of another origin can send without a preflight: they have no body. */

const app = 'https://app.example.org'
const evil = 'http://evil.example'

/** Returns the status, and the message if it is a refusal. */
async function post(url: string, headers: Readonly<Record<string, string>> = {}): Promise<[number, string]> {
  const response = await fetch(url, { method: 'POST', headers })
  const bytes = await response.bytes()
  return [response.status, response.ok ? '' : Buffer.from(bytes).toString()]
}

const refusal: [number, string] = [
  403,
  'without HTTP_API_KEY this server only accepts requests of its own web pages: add other origins to CORS_ORIGINS',
]

describe('a page of another origin', () => {
  it('cannot take snapshots of an open service, unlike the console, allowed pages and other clients', async () => {
    await using service = await startTestService({ CORS_ORIGINS: app })
    const url = `${service.httpUrl}/snapshots`
    for (const path of ['/snapshots', '/collections/default/snapshots', '/nowhere']) {
      const headers = { origin: evil, 'sec-fetch-site': 'cross-site' }
      assert.deepEqual(await post(service.httpUrl + path, headers), refusal, path)
    }
    assert.deepEqual(await post(url, { origin: evil }), refusal)
    assert.deepEqual(await post(url, { origin: 'null' }), refusal)
    assert.deepEqual(await post(url, { 'sec-fetch-site': 'same-site' }), refusal)
    for (const headers of [
      {},
      { origin: app, 'sec-fetch-site': 'cross-site' },
      { origin: service.httpUrl, 'sec-fetch-site': 'same-origin' },
      { origin: service.httpUrl },
    ]) {
      assert.deepEqual(await post(url, headers), [200, ''], JSON.stringify(headers))
    }
  })

  it('cannot make an open service work for an image, but may link to the console', async () => {
    await using service = await startTestService({ CORS_ORIGINS: app })
    const get = (path: string, headers: Readonly<Record<string, string>>): Promise<Response> =>
      fetch(service.httpUrl + path, { headers })
    const image = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' }
    for (const path of ['/stats', '/collections/x/stats', '/slow-queries', '/metrics']) {
      const answer = await get(path, image)
      assert.deepEqual([answer.status, await answer.text()], refusal, path)
    }
    for (const path of ['/console', '/docs', '/health', '/']) {
      assert.equal((await get(path, { ...image, 'sec-fetch-dest': 'document' })).status, 200, path)
    }
    for (const headers of [
      {},
      { 'sec-fetch-site': 'same-origin' },
      { 'sec-fetch-site': 'none' },
      { 'sec-fetch-site': 'cross-site', origin: app },
    ]) {
      assert.equal((await get('/stats', headers)).status, 200, JSON.stringify(headers))
    }
  })

  it('needs a key if the service has one', async () => {
    await using service = await startTestService({ HTTP_API_KEY: apiKey })
    const url = `${service.httpUrl}/snapshots`
    const headers = { origin: evil, 'sec-fetch-site': 'cross-site' }
    assert.equal((await post(url, headers))[0], 401)
    assert.equal((await post(url, { ...headers, authorization: apiKey }))[0], 200)
  })

  it('cannot change a cluster', async () => {
    await using cluster = await startTestCluster(['a'])
    const url = cluster.services[0]!.httpUrl
    for (const path of ['nodes/a/drain', 'nodes/a/refetch', 'repair']) {
      const headers = { origin: evil, 'sec-fetch-site': 'cross-site' }
      assert.deepEqual(await post(`${url}/cluster/${path}`, headers), refusal, path)
    }
    assert.deepEqual(await post(`${url}/cluster/nodes/a/drain`), [204, ''])
  })
})
