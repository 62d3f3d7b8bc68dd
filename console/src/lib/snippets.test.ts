import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
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

  it('has the groups', () => {
    const grouped = { ...query, group: 'doc' }
    for (const language of ['curl', 'grpc'] as const)
      assert.match(snippet(language, grouped, true), /"group_by": \{"path":"doc","size":3\}/)
    assert.match(snippet('typescript', grouped, true), /groupBy: \{ path: "doc", size: 3 \}/)
    assert.match(snippet('python', grouped, true), /import GroupBy, Vicinal.*group_by=GroupBy\("doc", 3\)/s)
  })

  it('has a valid JSON body', () => {
    const [, body] = /-d '(\{.*\})'/s.exec(snippet('curl', { ...query, filter: {} }, true))!
    assert.equal((JSON.parse(body!) as { readonly ef: number }).ef, 64)
  })
})
