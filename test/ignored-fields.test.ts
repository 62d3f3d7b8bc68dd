import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { startTestService } from './support/service.ts'

const vector = [1, 2]
const payload = { content_type: 'Text', content: 'x' }
const unknownId = '0b9b6c0e-3c34-4c5b-9a3f-0a3c3c1f2a11'
const query = { vector, similarity: 'Cosine', limit: 1 }

/** For each endpoint: the request, the status, and the fields that it reports as ignored. */
const cases: readonly (readonly [path: string, body: unknown, status: number, ignored: string | null])[] = [
  ['/points', { vector, payload }, 201, null],
  ['/points', { vector, payload, filtr: { a: [1] }, Id: 1 }, 201, 'filtr, Id'],
  [
    '/points',
    { vector, payload: { ...payload, attribute: {} }, metadata: {} },
    201,
    'payload.attribute, metadata',
  ],
  ['/points', { vectr: vector, payload }, 400, 'vectr'],
  ['/points', { filter: {}, vector: 'x', payload }, 400, 'filter'],
  ['/points/batch', { vectors: [{ vector, payload }] }, 201, null],
  [
    '/points/batch',
    {
      on_error: 'abort',
      vectors: [
        { vector, payload },
        { vector, payload, metadata: {} },
        { vector, payload: { ...payload, tags: [] }, metadata: 1 },
      ],
      more: null,
    },
    201,
    'vectors[].metadata, vectors[].payload.tags, more',
  ],
  [
    '/points/batch',
    { points: [], vectors: [{ vector, payload, meta: 1 }, { vector }] },
    400,
    'points, vectors[].meta',
  ],
  ['/points/search', query, 200, null],
  ['/points/search', { ...query, EF: 9, filters: { a: 1 } }, 200, 'EF, filters'],
  ['/points/search', { ...query, filters: {}, limit: 0 }, 400, 'filters'],
  ['/points/search/batch', { queries: [query], on_error: 'continue' }, 200, 'on_error'],
  ['/points/search/batch', { queries: [query] }, 200, null],
  [
    '/points/search/batch',
    { queries: [query, { ...query, top: 1 }], filter: {} },
    200,
    'queries[].top, filter',
  ],
  // Names that are not valid in a header, and more and longer names than the header may have.
  [
    '/points/search',
    { ...query, 'a,b': 1, 'über\r\nx: y': 1, '': 1, '\ud800': 1 },
    200,
    'a%2Cb, %C3%BCber%0D%0Ax%3A%20y, "", %EF%BF%BD',
  ],
  [
    '/points/search',
    { ...query, ['x'.repeat(1000)]: 1, ['é'.repeat(50)]: 1 },
    200,
    `${'x'.repeat(64)}..., ${'%C3%A9'.repeat(10)}%C3...`,
  ],
  [
    '/points/search',
    { ...query, ...Object.fromEntries(Array.from({ length: 1000 }, (_, each) => [`f${each}`, 1])) },
    200,
    [...Array.from({ length: 16 }, (_, each) => `f${each}`), '...'].join(', '),
  ],
]

/** Strict requests, and the error of each; undefined if there is none. */
const strictCases: readonly (readonly [method: string, path: string, body: unknown, message?: string])[] = [
  ['POST', '/points/search', query],
  ['POST', '/points/search', { ...query, filters: { tenant: 'acme' } }, 'filters … did you mean filter?'],
  ['POST', '/points/search', { ...query, similarty: 1 }, 'similarty … did you mean similarity?'],
  ['POST', '/points/search', { ...query, Limit: 1 }, 'Limit … did you mean limit?'],
  [
    'POST',
    '/points/search/batch',
    { queries: [query, { ...query, filtr: {} }] },
    'queries[1].filtr … did you mean filter?',
  ],
  ['POST', '/points/search/batch', { queries: [query], on_error: 'abort' }, 'on_error … they are queries'],
  [
    'POST',
    '/points',
    { vector, payload, filtr: 1 },
    'filtr … they are vector, text, payload, id, on_conflict',
  ],
  [
    'POST',
    '/points',
    { vector, payload: { ...payload, attribute: {} } },
    'payload.attribute … did you mean attributes?',
  ],
  ['POST', '/points/batch', { vectors: [{ vector, payload, ids: 1 }] }, 'vectors[0].ids … did you mean id?'],
  ['POST', '/points/batch', { vectors: [], onerror: 'abort' }, 'onerror … did you mean on_error?'],
  ['POST', '/points/list', { curser: '' }, 'curser … did you mean cursor?'],
  ['POST', '/points/count', { filters: {} }, 'filters … did you mean filter?'],
  ['POST', '/points/facets', { path: ['a'] }, 'path … did you mean paths?'],
  ['POST', '/points/delete', { filter: { a: 1 }, dryrun: true }, 'dryrun … did you mean dry_run?'],
  ['POST', '/points/update', { filter: { a: 1 }, sets: {} }, 'sets … did you mean set?'],
  ['PUT', `/points/${unknownId}`, { vector, payload, wen: {} }, 'wen … did you mean when?'],
  ['PATCH', `/points/${unknownId}`, { unsett: [] }, 'unsett … did you mean unset?'],
  ['PUT', '/collections/strict', { dimensions: 2 }, 'dimensions … did you mean dimension?'],
  ['PUT', '/collections/strict', { hnsw: { M: 8 } }, 'hnsw.M … did you mean m?'],
  ['PUT', '/aliases', { sett: {} }, 'sett … did you mean set?'],
  ['GET', `/points/${unknownId}?versoin=true`, undefined, 'versoin … did you mean version?'],
  ['POST', '/points/count?filter=1', {}, 'filter … there are none here'],
  ['GET', '/stats?collection=a', undefined, 'collection … there are none here'],
]

describe('unknown fields', () => {
  it('are refused in strict requests, with the field that was probably meant, and nothing is done', async () => {
    await using service = await startTestService()
    for (const [method, path, body, message] of strictCases) {
      const sent = body === undefined ? undefined : JSON.stringify(body)
      const headers = {
        'vicinal-strict': 'true',
        ...(sent !== undefined && { 'content-type': 'application/json' }),
      }
      const response = await fetch(service.httpUrl + path, { method, headers, ...(sent && { body: sent }) })
      const text = await response.text()
      assert.equal(response.status, message === undefined ? 200 : 400, `${path} ${sent}: ${text}`)
      if (message !== undefined) {
        assert.equal(text, message.replace(' … ', ' is not a known field or parameter: '))
      }
      assert.equal(response.headers.get('vicinal-ignored-fields'), null)
    }
    const names = await (await fetch(`${service.httpUrl}/collections`)).json()
    assert.deepEqual((names as { collections: { points: number }[] }).collections.length, 1)
    assert.equal((names as { collections: { points: number }[] }).collections[0]!.points, 0)
  })

  it('are ignored unless vicinal-strict is true', async () => {
    await using service = await startTestService()
    const search = (strict: string): Promise<Response> =>
      fetch(`${service.httpUrl}/points/search?x=1`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'vicinal-strict': strict },
        body: JSON.stringify({ ...query, filters: {} }),
      })
    assert.equal((await search('false')).status, 200)
    const wrong = await search('yes')
    assert.equal(wrong.status, 400)
    assert.equal(await wrong.text(), 'vicinal-strict is "yes", it must be true or false')
  })

  it('are ignored, and named in the answer', async () => {
    await using service = await startTestService()
    for (const [path, body, status, ignored] of cases) {
      const text = JSON.stringify(body)
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(service.httpUrl + path, { method: 'POST', headers, body: text })
      await response.text()
      assert.deepEqual(
        [response.status, response.headers.get('vicinal-ignored-fields')],
        [status, ignored],
        text,
      )
    }
  })
})
