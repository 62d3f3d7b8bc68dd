import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { shapeFields, shapeOf } from './answer-shape.ts'
import { type QueryToShow, snippet } from './snippets.ts'

const query: QueryToShow = {
  url: 'http://127.0.0.1:3000',
  grpcPort: 50_051,
  collection: 'default',
  needsKey: false,
  near: { vector: [0.1, 0.2, 0.3, 0.4, 0.5] },
  words: '',
  balance: 0.5,
  metric: 'Cosine',
  limit: 5,
  ef: 64,
  filter: { name: "it's", new: true },
  shape: {},
}

describe('a query as code', () => {
  it('has a few numbers for display, and all numbers for copying', () => {
    assert.match(snippet('curl', query, false), /\[0\.1, 0\.2, 0\.3, 0\.4, … 5 numbers\]/)
    assert.match(snippet('curl', query, true), /"vector": \[0\.1,0\.2,0\.3,0\.4,0\.5\]/)
  })

  it('is quoted for the shell, and uses Python literals', () => {
    assert.match(snippet('curl', query, true), /"filter": \{"name":"it'\\''s","new":true\}/)
    assert.match(snippet('python', query, true), /filter=\{"name":"it's","new":True\}/)
  })

  it('includes the collection, the key and the point if the query has them', () => {
    const other = { ...query, collection: 'books', needsKey: true, near: { id: 'an-id' } } as const
    assert.match(snippet('curl', other, true), /3000\/collections\/books\/points\/search/)
    assert.match(snippet('typescript', other, true), /collection: "books",\n {2}apiKey/)
    assert.match(snippet('grpc', other, true), /-H 'collection: books'/)
    assert.match(snippet('grpc', other, true), /"near_id"/)
    assert.match(snippet('grpc', other, true), /"path":"name"/)
  })

  it('has the words, and what the vector counts beside them', () => {
    const alone = { ...query, near: undefined, words: 'rye flour' }
    assert.doesNotMatch(snippet('curl', alone, true), /similarity|balance|distance/)
    assert.match(snippet('grpc', alone, true), /"words": "rye flour"/)
    const both = { ...query, words: 'rye flour', balance: 0.3 }
    assert.match(snippet('curl', both, true), /"balance": 0\.3/)
    assert.match(snippet('typescript', both, true), /words: "rye flour",\n {2}balance: 0\.3/)
    assert.match(snippet('python', both, true), /words="rye flour",\n {4}balance=0\.3/)
    assert.match(snippet('python', alone, true), /client\.search\(\n {4}words=/)
  })

  it('has what shapes the answer', () => {
    const { shape } = shapeOf({
      group: 'doc',
      unlike: 'A0B1C2D3-0000-4000-8000-000000000000',
      boost:
        '[{"filter": {"new": true}, "weight": 0.1}, {"recent": {"path": "at", "half_life": "14d"}, "weight": 0.2}]',
      statistics: '{"lang": "en"}',
    })
    const shaped = { ...query, words: 'rye', shape }
    const [curl, grpc] = (['curl', 'grpc'] as const).map((language) => snippet(language, shaped, true))
    for (const text of [curl, grpc]) assert.match(text!, /"group_by": \{"path":"doc","size":3\}/)
    assert.match(curl!, /"statistics": \{"filter":\{"lang":"en"\}\}/)
    assert.match(grpc!, /"unlike": \[\{"id":\{"value":"A0B1/)
    assert.match(grpc!, /"boost": \[\{"weight":0\.1,"filter":\{"condition"/)
    const script = snippet('typescript', shaped, true)
    assert.match(script, /groupBy: \{ path: "doc", size: 3 \}/)
    assert.match(script, /recent: \{ path: "at", halfLife: "14d" \}/)
    const python = snippet('python', shaped, true)
    assert.match(python, /import Boost, GroupBy, Recent, Vicinal.*group_by=GroupBy\("doc", 3\)/s)
    assert.match(
      python,
      /boost=\[Boost\(0\.1, filter=\{"new":True\}\), Boost\(0\.2, recent=Recent\("at", "14d"\)\)\]/,
    )
    assert.match(python, /statistics=\{"lang":"en"\}/)
  })

  it('leaves out what cannot be read, and says why', () => {
    const { shape, faults } = shapeOf({ like: 'x', boost: '5', diversity: 'much', statistics: '[]' })
    assert.deepEqual(shape, {})
    assert.deepEqual(faults, {
      like: 'x is not a UUID.',
      boost: 'Boosts must be JSON objects in a list.',
      diversity: 'much is not a number.',
      statistics: 'A filter must be a JSON object.',
    })
    const faultOf = (boost: string) => shapeOf({ boost }).faults.boost
    for (const boost of ['[{}]', '{"filter": {}, "weight": "9"}', '{"filter": {}, "weight": 1e999}']) {
      assert.equal(faultOf(boost), 'Boost 1 must have a number as its weight.', boost)
    }
    for (const rest of ['', ', "filter": 5', ', "recent": null', ', "filter": {}, "recent": {}']) {
      const fault = 'Boost 2 must have one of filter and recent, as an object.'
      assert.equal(faultOf(`[{"weight": 1, "filter": {}}, {"weight": 9${rest}}]`), fault, rest)
    }
    assert.deepEqual(shapeOf({ rerank: 'Infinity' }).faults, { rerank: 'Infinity is not a number.' })
  })

  it('stays away from points only if there is something to search near', () => {
    const id = 'a0b1c2d3-0000-4000-8000-000000000000'
    const alone = shapeOf({ unlike: id }, shapeFields, false)
    assert.deepEqual(alone.shape, {})
    assert.match(alone.faults.unlike!, /something to search near/)
    assert.deepEqual(shapeOf({ unlike: id }).shape, { unlike: [id] })
    assert.deepEqual(shapeOf({ unlike: id, like: id }, shapeFields, false).faults, {})
  })

  it('has a valid JSON body', () => {
    const [, body] = /-d '(\{.*\})'/s.exec(snippet('curl', { ...query, filter: {} }, true))!
    assert.equal((JSON.parse(body!) as { readonly ef: number }).ef, 64)
  })
})
