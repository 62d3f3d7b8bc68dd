import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { CollectionInfo } from '../../base/collection.ts'
import { encodeAliases, encodeCollection, encodeCollections } from './json-answers.ts'
import type { FieldNotes } from './json-objects.ts'
import { decodeAliases, decodeCollection } from './json-requests.ts'

/** Decodes a short body, which takes only one turn. */
function noted<Input>(
  decode: (body: Buffer, notes: FieldNotes) => Input | Promise<Input>,
  body: string,
): { readonly input: Input; readonly ignored: string | undefined } {
  const notes: FieldNotes = { ignoredFields: undefined }
  const input = decode(Buffer.from(body), notes)
  assert.ok(!(input instanceof Promise))
  return { input, ignored: notes.ignoredFields?.toString() }
}

describe('the settings of a collection as JSON', () => {
  it('are optional', () => {
    assert.deepEqual(noted(decodeCollection, ''), { input: {}, ignored: undefined })
    const cases = [
      ['{}', {}],
      ['{"dimension": 3}', { dimension: 3 }],
      ['{"hnsw": {}}', { hnsw: {} }],
      ['{"hnsw": {"m": 8}, "dimension": 4}', { dimension: 4, hnsw: { m: 8 } }],
      ['{"hnsw": {"ef_construction": 99}}', { hnsw: { efConstruction: 99 } }],
    ] as const
    for (const [body, input] of cases) {
      assert.deepEqual(noted(decodeCollection, body), { input, ignored: undefined }, body)
    }
  })

  it('may include unknown fields, whose names are recorded', () => {
    const { input, ignored } = noted(decodeCollection, '{"metric": "Cosine", "hnsw": {"ef": [1], "m": 9}}')
    assert.deepEqual(input, { hnsw: { m: 9 } })
    assert.equal(ignored, 'metric, hnsw.ef')
  })

  it('are refused with their path if a type is wrong', () => {
    const cases: readonly (readonly [string, RegExp])[] = [
      ['{"dimension": "3"}', /dimension/],
      ['{"dimension": null}', /dimension/],
      ['{"hnsw": 4}', /hnsw/],
      ['{"hnsw": {"m": true}}', /hnsw\.m/],
      ['{"hnsw": {"ef_construction": [1]}}', /hnsw\.ef_construction/],
      ['[]', /object/],
      ['{', /JSON|end/],
      [' ', /JSON|end/],
      ['{} {}', /JSON|end|behind/],
    ]
    for (const [body, message] of cases) {
      assert.throws(() => noted(decodeCollection, body), { reason: 'invalid_argument', message }, body)
    }
  })
})

describe('changes of aliases as JSON', () => {
  it('have aliases to set and aliases to remove', () => {
    const body = '{"remove": ["c", "d"], "set": {"b": "y", "a": "x"}, "more": 1}'
    const { input, ignored } = noted(decodeAliases, body)
    assert.deepEqual(
      [...input.set!],
      [
        ['b', 'y'],
        ['a', 'x'],
      ],
    )
    assert.deepEqual(input.remove, ['c', 'd'])
    assert.equal(ignored, 'more')
    assert.deepEqual(noted(decodeAliases, '{}').input, {})
  })

  it('keep the last change of a repeated alias', () => {
    for (const body of [
      '{"set": {"a": "x", "a": "y"}}',
      '{"set": {"a": "x", "b": "x"}, "set": {"a": "y"}}',
    ]) {
      const { input } = noted(decodeAliases, body)
      assert.deepEqual([...input.set!], [['a', 'y']])
    }
  })

  it('may have names with a meaning in JavaScript', () => {
    const { input } = noted(decodeAliases, '{"set": {"__proto__": "x", "constructor": "y"}}')
    assert.deepEqual([...input.set!.keys()], ['__proto__', 'constructor'])
  })

  it('are refused at the first one beyond the limit, however many follow', () => {
    const thousand = Array.from({ length: 1000 }, (_, index) => `a${index}`)
    const removed = thousand.map((alias) => `"${alias}"`).join()
    const set = thousand.map((alias) => `"${alias}":"x"`).join()
    assert.equal(noted(decodeAliases, `{"remove":[${removed}]}`).input.remove!.length, 1000)
    assert.equal(noted(decodeAliases, `{"set":{${set}}}`).input.set!.size, 1000)
    // What follows is not JSON: the message would say so if it had been read.
    for (const body of [`{"remove":[${removed},"b" !`, `{"set":{${set},"b":"x" !`]) {
      assert.throws(() => noted(decodeAliases, body), {
        reason: 'invalid_argument',
        message: 'set and remove hold more than 1000 aliases together, which is the maximum',
      })
    }
  })

  it('are refused with their path if a type is wrong, and without a body', () => {
    const cases: readonly (readonly [string, RegExp])[] = [
      ['{"set": []}', /set/],
      ['{"set": {"a": 1}}', /set\.a/],
      ['{"remove": "a"}', /remove/],
      ['{"remove": ["a", {}]}', /remove\[1\]/],
      ['', /JSON|end/],
    ]
    for (const [body, message] of cases) {
      assert.throws(() => noted(decodeAliases, body), { reason: 'invalid_argument', message }, body)
    }
  })
})

describe('answers about collections as JSON', () => {
  const full: CollectionInfo = {
    name: 'glosses-2',
    dimension: 512,
    points: 7,
    hnsw: { m: 16, efConstruction: 200 },
    aliases: ['glosses'],
  }
  const spelled = {
    name: 'glosses-2',
    dimension: 512,
    points: 7,
    hnsw: { m: 16, ef_construction: 200 },
    aliases: ['glosses'],
  }

  it('have every field, except a dimension that is not fixed yet', () => {
    const { dimension: _, ...unfixed } = spelled
    assert.deepEqual(JSON.parse(encodeCollection(full)), spelled)
    assert.deepEqual(JSON.parse(encodeCollection({ ...full, dimension: undefined })), unfixed)
    assert.deepEqual(JSON.parse(encodeCollections([full, { ...full, dimension: undefined }])), {
      collections: [spelled, unfixed],
    })
    assert.equal(encodeCollections([]), '{"collections":[]}')
  })

  it('have aliases in alphabetical order', () => {
    const aliases = new Map([
      ['b', 'x'],
      ['a-1', 'y'],
      ['a', 'x'],
    ])
    assert.equal(encodeAliases(aliases), '{"aliases":{"a":"x","a-1":"y","b":"x"}}')
    assert.equal(encodeAliases(new Map()), '{"aliases":{}}')
  })
})
