import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { startTestService } from './support/service.ts'

const vector = [1, 2]
const payload = { content_type: 'Text', content: 'x' }
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

describe('unknown fields', () => {
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
