import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { type JsonAnswer, sendJson } from './support/json-http.ts'
import { startTestService, type TestService } from './support/service.ts'
import { until } from './support/until.ts'

/** The parts of the extended interface that are specific to HTTP/JSON: spelling, statuses and headers. */

const payload = { content_type: 'Text', content: 'x' }

describe('the extended interface over HTTP', () => {
  let service: TestService
  before(async () => {
    service = await startTestService()
  })
  after(() => service[Symbol.asyncDispose]())

  const send = (
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<JsonAnswer> => sendJson(service.httpUrl + path, method, body, headers)

  it('has a JSON form for every part of a point, and shows only existing parts', async () => {
    const id = randomUUID()
    const attributes = {
      at: { $date: '2026-11-22T10:00:00Z' },
      b: { c: [1, 'x', { d: true }] },
      big: 1e300,
      where: { $geo: { lat: 1, lon: 2.5 } },
    }
    const body = {
      id,
      vector: [0.5, 1],
      payload: { ...payload, attributes, expires_at: '2126-12-01T00:00:00+01:00' },
    }
    assert.deepEqual((await send('POST', '/points', body)).body, { point_id: id })
    const { body: found } = await send('GET', `/points/${id}`)
    assert.deepEqual(found, {
      id,
      vector: [0.5, 1],
      payload: { ...payload, attributes, expires_at: '2126-11-30T23:00:00Z' },
    })
    const { body: withVersion } = await send('GET', `/points/${id}?version=true`)
    const { version, ...rest } = withVersion as { version: number }
    assert.ok(Number.isInteger(version))
    assert.deepEqual(rest, found)
    assert.deepEqual((await send('GET', `/points/${id}?version=false`)).body, found)
    const refused = await send('GET', `/points/${id}?version=1`)
    assert.deepEqual([refused.status, refused.body], [400, 'version is "1", it must be true or false'])
  })

  it('answers writes with the matching HTTP statuses', async () => {
    const path = `/points/${randomUUID()}`
    const put = (more: object, headers = {}): Promise<JsonAnswer> =>
      send('PUT', path, { vector: [1, 2], payload, ...more }, headers)
    const created = await put({})
    assert.equal(created.status, 201)
    const { version } = created.body as { version: number }
    assert.deepEqual(created.body, { id: path.slice('/points/'.length), version, created: true })
    const replaced = await put({}, { 'if-match': `"${version}"` })
    assert.equal(replaced.status, 200)
    assert.equal((replaced.body as { created: boolean }).created, false)
    assert.equal((await put({}, { 'if-match': `"${version}"` })).status, 412)
    assert.equal((await put({ when: { version } })).status, 412)
    assert.equal((await put({ when: { absent: true } })).status, 412)
    const now = (replaced.body as { version: number }).version
    const patched = await send(
      'PATCH',
      path,
      { set: { n: 1 }, when: { version: now } },
      { 'if-match': `${now}` },
    )
    assert.equal(patched.status, 200)
    assert.deepEqual(Object.keys(patched.body as object), ['version'])
    const conflict = await send('POST', '/points', {
      id: path.slice('/points/'.length),
      vector: [1, 2],
      payload,
    })
    assert.equal(conflict.status, 409)
    for (const ifMatch of ['*', 'W/"5"', '"5", "6"', '"x"', '']) {
      const refused = await put({}, { 'if-match': ifMatch })
      assert.equal(refused.status, 400, ifMatch)
      assert.match(String(refused.body), /^if-match is .*, it must be the version of the point, like "5"$/)
    }
    assert.equal((await put({ when: { version: 1 } }, { 'if-match': '"2"' })).status, 400)
    assert.equal((await send('PATCH', `/points/${randomUUID()}`, { content: 'y' })).status, 404)
    for (const name of ['list', 'count', 'facets', 'update', 'delete']) {
      const other = await send('GET', `/points/${name}`)
      assert.deepEqual([other.status, other.headers.get('allow')], [405, 'POST'], name)
    }
  })

  it('continues after bad items, whether on_error comes before or after them', async () => {
    const good = { vector: [1, 2], payload }
    const bad = { vector: ['x'], payload }
    for (const [body, status] of [
      [{ on_error: 'continue', vectors: [good, bad] }, 201],
      [{ vectors: [bad, good], on_error: 'continue' }, 201],
      [{ vectors: [good], on_error: 'continue' }, 201],
      [{ vectors: [bad, good], on_error: 'abort' }, 400],
      [{ vectors: [good, bad] }, 400],
      [{ vectors: [good], on_error: 'ignore' }, 400],
    ] as const) {
      const answer = await send('POST', '/points/batch', body)
      assert.equal(answer.status, status, JSON.stringify(answer.body))
      if (status !== 201) continue
      const { point_ids: ids, errors } = answer.body as { point_ids: (string | null)[]; errors: object[] }
      const at = body.vectors.indexOf(bad as never)
      assert.deepEqual(
        ids.map((id) => id === null),
        body.vectors.map((each) => each === (bad as never)),
      )
      const error = {
        index: at,
        status: 400,
        message: `vectors[${at}].vector[0] is a string, it must be a number`,
      }
      assert.deepEqual(errors, at === -1 ? [] : [error])
    }
    const malformed = '{"vectors":[{"vector":[1],"payload":{},"x":],"on_error":"continue"}'
    assert.equal((await send('POST', '/points/batch', malformed)).status, 400)
  })

  it('accepts ttl_seconds, and repeated inserts do not change the expiry', async () => {
    const key = { 'idempotency-key': randomUUID() }
    const body = { vector: [1, 2], payload: { ...payload, ttl_seconds: 3600 } }
    const first = await send('POST', '/points', body, key)
    assert.equal(first.status, 201)
    const again = await send('POST', '/points', body, key)
    assert.deepEqual(again.body, first.body)
    const other = { vector: [1, 2], payload: { ...payload, ttl_seconds: 3601 } }
    assert.equal((await send('POST', '/points', other, key)).status, 422)
    const { point_id: id } = first.body as { point_id: string }
    const found = (await send('GET', `/points/${id}`)).body as { payload: { expires_at: string } }
    const leftMs = Date.parse(found.payload.expires_at) - Date.now()
    assert.ok(leftMs <= 3_600_000 && leftMs > 0, found.payload.expires_at)
    await send('PATCH', `/points/${id}`, { ttl_seconds: 1e-6 })
    // The service can set the expiry a millisecond ahead of its clock, which counts whole milliseconds.
    const patchedMs = Date.now()
    await until(() => Date.now() > patchedMs)
    assert.equal((await send('GET', `/points/${id}`)).status, 404)
    for (const ttl of [0, -1, 1e12]) {
      const refused = { vector: [1, 2], payload: { ...payload, ttl_seconds: ttl } }
      const { status, body } = await send('POST', '/points', refused)
      assert.equal(status, 400)
      assert.match(String(body), /^payload\.ttl_seconds is .*greater than 0 and at most 3155760000/)
    }
    const both = { ...payload, ttl_seconds: 1, expires_at: '2126-01-01T00:00:00Z' }
    assert.equal((await send('POST', '/points', { vector: [1, 2], payload: both })).status, 400)
  })

  it('names unknown fields, and refuses them where they would change the meaning', async () => {
    const query = { vector: [1, 2], similarity: 'Cosine', limit: 1 }
    const ignored = await send('POST', '/points/search', { ...query, filtr: { a: 1 } })
    assert.deepEqual([ignored.status, ignored.headers.get('vicinal-ignored-fields')], [200, 'filtr'])
    for (const [path, body, message] of [
      ['/points/search', { ...query, filter: { a: { $gtee: 1 } } }, /^filter\.a\.\$gtee /],
      ['/points/search', { ...query, include: { distances: true } }, /^include\.distances is not known/],
      [
        '/points/search/batch',
        { queries: [query, { ...query, filter: { $x: 1 } }] },
        /^queries\[1\]\.filter\.\$x /,
      ],
      ['/points/list', { include: { distance: true } }, /^include\.distance is true, but/],
      ['/points/list', { limit: 0 }, /^limit is 0, it must be a whole number from 1 to 16384 \(MAX_LIMIT\)$/],
      ['/points/list', { cursor: 'nonsense' }, /cursor/],
      ['/points/facets', {}, /^paths is missing or empty, it needs 1 to 16 paths$/],
      [
        '/points/facets',
        { paths: ['a'], limit: 1001 },
        /^limit is 1001, it must be a whole number from 1 to 1000$/,
      ],
      ['/points/delete', {}, /^the filter is missing: send "everything": true to mean all points$/],
      ['/points/delete', { filter: { $and: [{}] } }, /^the filter is empty: /],
      ['/points/delete', { filter: { $or: [{}] } }, /^the filter matches every point: /],
      [
        '/points/delete',
        { filter: { $id: { $nin: [] } }, dry_run: true },
        /^the filter matches every point: /,
      ],
      [
        '/points/update',
        { filter: { $version: { $gt: 0 } }, set: { a: 1 } },
        /^the filter matches every point: /,
      ],
      ['/points/update', { filter: { a: 1 } }, /^there is nothing to change: send set, unset, expires_at$/],
      ['/points/update', { filter: { a: 1 }, content: 'x' }, /^content cannot be changed by filter/],
      [
        '/points',
        { vector: [1, 2], payload: { ...payload, attributes: { a: [null] } } },
        /^payload\.attributes\.a\[0\] /,
      ],
    ] as const) {
      const answer = await send('POST', path, body)
      assert.equal(answer.status, 400, path)
      assert.match(String(answer.body), message)
    }
  })
})
