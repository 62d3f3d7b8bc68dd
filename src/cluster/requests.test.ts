import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DateTime, GeoPoint } from '../base/attributes.ts'
import { IdLists, type SearchResults } from '../base/id-lists.ts'
import { PartitionSet } from '../base/partitions.ts'
import { fromBytes, toBytes } from '../base/plain-values.ts'
import type { HitDetails, Include, Profile, VectorQuery } from '../base/point.ts'
import { atOnce } from '../base/turns.ts'
import type { OrderedPage } from './reads/merged-answers.ts'
import { decodeQuestion, encodeQuestion, NothingDone } from './requests.ts'

/** Each value has all fields of its type. Whoever renames one counts up the form of the questions. */
const include: Required<Include> = {
  ...{ distance: true, payload: false, vector: true, version: false, scores: false, highlight: false },
  attributes: ['a.b', '$x'],
}
const query: Required<Omit<VectorQuery, 'words' | 'keyFilter' | 'cursor'>> = {
  vector: Float32Array.of(0.5, -1, 3),
  metric: 'Cosine',
  limit: 10,
  ef: 64,
  filter: { kind: 'condition', path: 'a', test: { op: 'prefix', text: 'x' } },
  exact: true,
  maxDistance: Number.POSITIVE_INFINITY,
  include,
  profile: false,
}
const ids = ['00112233-4455-6677-8899-aabbccddeeff', 'ff112233-4455-6677-8899-aabbccddeeff'] as const
const attributes = new Map<string, never>(
  Object.entries({ a: 1, at: new DateTime(5), by: new GeoPoint(1, -2), of: [true, 'b'] }) as [
    string,
    never,
  ][],
)
const payload = { contentType: 'Image', content: 'ä', attributes } as const
const plan = { plan: 'graph', reason: 'because' } as const
const profile: Profile = {
  ...plan,
  ...{ points: 1, matching: 2, compared: 3, measured: 4, ef: 5, efMultiplier: 6 },
  ...{ filterUs: 7, queueUs: 8, searchUs: 9, recallEstimate: 0.5 },
}

describe('questions between nodes', () => {
  it('have all that is asked for', async () => {
    const all: Include = { ...include, attributes: 'all' }
    const queries = [query, { ...query, include: all }, { ...query, include: undefined }]
    const asked = {
      collection: 'docs',
      position: 2 ** 40,
      partitions: PartitionSet.of([3, 255]).bytes,
      queries,
    }
    assert.deepEqual({ ...(await decodeQuestion(await encodeQuestion(asked))) }, { form: 1, ...asked })
  })

  it('of another form are refused', async () => {
    const other = atOnce(toBytes({ form: 2 }))
    await assert.rejects(decodeQuestion(other), { reason: 'not_ready', message: /upgrade all/ })
    await assert.rejects(decodeQuestion(other), NothingDone)
    await assert.rejects(decodeQuestion(Buffer.from('no question')))
  })
})

describe('answers between nodes', () => {
  it('are pages', () => {
    const page: OrderedPage = {
      points: [{ id: ids[0], payload, version: 7 }],
      orders: [5],
      nextCursor: undefined,
      knownBelow: 65_536,
      visible: 300,
    }
    assert.deepEqual(atOnce(fromBytes(atOnce(toBytes(page)))), page)
  })

  it('are results of several queries, wherever their bytes begin', () => {
    const hit: HitDetails = { payload, vector: Float32Array.of(1, 2), version: 2 ** 50 }
    const found: SearchResults = {
      ids: IdLists.of([[ids[0], ids[1]], [], [ids[1]]]),
      distances: Float64Array.of(0, Number.NaN, -1),
      sequences: Float64Array.of(1, 2, 2 ** 53 - 1),
      details: [[hit, { version: 0 }], [], undefined],
      profiles: [undefined, profile, undefined],
      plans: [plan, undefined, plan],
    }
    const bytes = atOnce(toBytes(found))
    for (const at of [0, 1, 2, 3]) {
      const moved = Buffer.concat([Buffer.alloc(at), bytes]).subarray(at)
      const read = atOnce(fromBytes(moved)) as SearchResults
      assert.deepEqual(read.ids.strings(), found.ids.strings())
      assert.deepEqual({ ...read, ids: undefined }, { ...found, ids: undefined })
    }
  })
})
