import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import type { FieldNotes } from './json-objects.ts'
import {
  decodeAliases,
  decodeCollection,
  decodeCount,
  decodeDelete,
  decodeFacets,
  decodeList,
  decodePatch,
  decodePoint,
  decodePoints,
  decodePut,
  decodeQuery,
  decodeUpdate,
} from './json-requests.ts'

/** How often the decoders of large bodies let other work run. The clock is a fake, so that only their steps count. */

type Decode = (body: Buffer, notes: FieldNotes) => unknown

const decoders: Readonly<Record<string, Decode>> = {
  decodePoint,
  decodePut,
  decodePatch,
  decodeUpdate,
  decodeDelete,
  decodeQuery,
  decodeList,
  decodeCount,
  decodeFacets,
  decodeCollection,
  decodeAliases,
}

/** Decodes a body; returns in how many turns. Every step takes a whole turn. */
async function turnsOf(test: TestContext, decode: Decode, body: string): Promise<number> {
  let nowMs = 0
  test.mock.method(performance, 'now', () => {
    nowMs += 10
    return nowMs
  })
  const turns = test.mock.method(globalThis, 'setImmediate')
  try {
    await decode(Buffer.from(body), { ignoredFields: undefined })
    return turns.mock.callCount() + 1
  } finally {
    test.mock.restoreAll()
  }
}

/** Returns how many steps the items of a batch take beyond one for each item. */
function extraSteps(body: string): number {
  const { vectors } = decodePoints(Buffer.from(body), { ignoredFields: undefined })
  return [...vectors!].filter((step) => step === undefined).length
}

const zeros = `[${'0,'.repeat(100_000)}0]`
const longText = JSON.stringify('x'.repeat(10_000))

describe('other work has a turn', () => {
  for (const [name, decode] of Object.entries(decoders)) {
    it(`while ${name} skips a long unknown field`, async (test) => {
      assert.ok((await turnsOf(test, decode, `{"more":${zeros}}`)) > 20)
      assert.equal(await turnsOf(test, decode, '{"more":[0]}'), 1)
    })

    it(`while ${name} skips many unknown fields`, async (test) => {
      const body = `{${Array.from({ length: 100 }, (_, index) => `"f${index}":${longText}`).join()}}`
      assert.ok((await turnsOf(test, decode, body)) > 10)
    })
  }

  it('while unknown fields of a payload are skipped', async (test) => {
    assert.ok((await turnsOf(test, decodePoint, `{"payload":{"more":${zeros}}}`)) > 20)
    assert.ok((await turnsOf(test, decodePut, `{"payload":{"more":${zeros}}}`)) > 20)
    assert.ok((await turnsOf(test, decodeCollection, `{"hnsw":{"more":${zeros}}}`)) > 20)
  })

  it('while repeated fields are read', async (test) => {
    const repeated = (field: string): string => `{${new Array(100).fill(field).join()}}`
    assert.ok((await turnsOf(test, decodePoint, repeated(`"text":${longText}`))) > 10)
    assert.ok((await turnsOf(test, decodePoint, repeated(`"vector":[${'0.25,'.repeat(2000)}0]`))) > 10)
    assert.ok((await turnsOf(test, decodePoint, `{"payload":${repeated(`"content":${longText}`)}}`)) > 10)
    assert.ok((await turnsOf(test, decodeQuery, repeated(`"text":${longText}`))) > 10)
    assert.ok(
      (await turnsOf(test, decodeQuery, `{"include":${repeated(`"attributes":[${longText}]`)}}`)) > 10,
    )
    assert.ok((await turnsOf(test, decodePatch, repeated(`"content":${longText}`))) > 10)
    assert.ok((await turnsOf(test, decodeAliases, repeated(`"remove":[${longText}]`))) > 10)
  })

  it('within one point of a batch', () => {
    assert.ok(extraSteps(`{"vectors":[{"more":${zeros}}]}`) > 20)
    assert.ok(extraSteps(`{"vectors":[{"payload":{"more":${zeros}}}]}`) > 20)
    assert.ok(extraSteps(`{${new Array(100).fill(`"on_error":${longText}`).join()},"vectors":[]}`) > 10)
    assert.equal(extraSteps('{"vectors":[{"more":[0]}]}'), 0)
  })
})

describe('an object with very many fields', () => {
  const fields = (count: number): string => new Array(count).fill('"a":0').join()
  const refused = (where: string): object => ({
    reason: 'invalid_argument',
    message: `${where} has more than 10000 fields`,
  })
  const decoded = async (decode: Decode, body: string): Promise<unknown> =>
    await decode(Buffer.from(body), { ignoredFields: undefined })

  it('is refused', async () => {
    for (const [name, decode] of Object.entries(decoders)) {
      await decoded(decode, `{${fields(10_000)}}`)
      await assert.rejects(decoded(decode, `{${fields(10_001)}}`), refused('the request body'), name)
    }
    await assert.rejects(decoded(decodePoint, `{"payload":{${fields(10_001)}}}`), refused('payload'))
    const dates = new Array(10_001).fill('"$date":"2026-12-01T00:00:00Z"').join()
    await assert.rejects(
      decoded(decodeCount, `{"filter":{"at":{"$gt":{${dates}}}}}`),
      refused('filter.at.$gt'),
    )
  })

  it('fails alone in a batch', () => {
    const body = `{"vectors":[{${fields(10_001)}},{"text":"x"}]}`
    const { vectors } = decodePoints(Buffer.from(body), { ignoredFields: undefined })
    const [bad, good] = [...vectors!].filter((item) => item !== undefined)
    assert.equal((bad as Error).message, 'vectors[0] has more than 10000 fields')
    assert.deepEqual(good, { text: 'x' })
  })
})
