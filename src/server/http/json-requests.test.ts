import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { itemsOf } from '../../../test/support/batch-items.ts'
import { checkBatch } from '../../api/validation.ts'
import { decodePoints, decodeQueries } from './json-requests.ts'

/** The result of decoding a body: its items, or the message of its refusal. */
type Outcome = { readonly items: readonly unknown[] } | { readonly refusal: string }

function atOnce(items: Iterable<unknown>): Outcome {
  try {
    return { items: itemsOf(items) }
  } catch (error) {
    return { refusal: (error as Error).message }
  }
}

async function inTurns(items: Iterable<unknown>): Promise<Outcome> {
  try {
    return { items: await checkBatch(slowed(items), 'items', (item) => item) }
  } catch (error) {
    return { refusal: (error as Error).message }
  }
}

/** Yields so slowly that other work has a turn every few items. */
function* slowed(items: Iterable<unknown>): Generator<unknown> {
  for (const item of items) {
    const endMs = performance.now() + 0.3
    while (performance.now() < endMs);
    yield item
  }
}

const notes = { ignoredFields: undefined }
const vector = fc.array(fc.oneof(fc.double({ noNaN: true }), fc.integer()), { maxLength: 4 })
const payload = fc.record({ content_type: fc.constantFrom('Text', 'Image'), content: fc.string() })
const point = fc.record({ vector, payload, more: fc.jsonValue() }, { requiredKeys: ['vector', 'payload'] })
const query = fc.record(
  { vector, similarity: fc.constantFrom('Cosine', 'Hamming'), limit: fc.nat(), ef: fc.nat() },
  { requiredKeys: ['vector', 'similarity', 'limit'] },
)
const batches = {
  vectors: { item: point, decode: (body: Buffer) => decodePoints(body, notes).vectors! },
  queries: { item: query, decode: (body: Buffer) => decodeQueries(body, notes).queries! },
}

describe('a JSON batch that is decoded in turns', () => {
  for (const [field, { item, decode }] of Object.entries(batches)) {
    const body = fc
      .tuple(fc.array(item as fc.Arbitrary<unknown>, { maxLength: 12 }), fc.jsonValue(), fc.boolean())
      .map(([items, other, isLast]) =>
        JSON.stringify(isLast ? { other, [field]: items } : { [field]: items, other }),
      )
    const damaged = fc
      .tuple(body, fc.nat(), fc.uint8Array({ maxLength: 3 }), fc.nat(3))
      .map(([text, at, noise, count]) => {
        const bytes = Buffer.from(text)
        const start = at % bytes.length
        return Buffer.concat([bytes.subarray(0, start), noise, bytes.subarray(start + count)])
      })

    it(`returns the same ${field}, or the same refusal, as one that is decoded in one turn`, async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.oneof(
            body.map((text) => Buffer.from(text)),
            damaged,
          ),
          async (bytes) => {
            assert.deepEqual(await inTurns(decode(bytes)), atOnce(decode(bytes)))
          },
        ),
        { numRuns: 150 },
      )
    })
  }

  it('yields while it skips an unknown field, and refuses malformed JSON after it', () => {
    const ignored = `[${'0,'.repeat(20_000)}0]`
    const whole = Buffer.from(`{"other":${ignored},"queries":[]}`)
    assert.deepEqual([...decodeQueries(whole, notes).queries!], new Array(4).fill(undefined))
    const broken = atOnce(decodeQueries(Buffer.from(`{"other":${ignored}x`), notes).queries!)
    assert.match((broken as { refusal: string }).refusal, /^the request body is not valid JSON: byte 40012/)
  })

  it('reports bytes that are not UTF-8 before any other fault', () => {
    const bytes = Buffer.concat([
      Buffer.from('{"vectors":[{"vector":"no"}]}'),
      Buffer.alloc(2 ** 20, ' '),
      Buffer.of(0xff),
    ])
    assert.deepEqual(atOnce(decodePoints(bytes, notes).vectors!), {
      refusal: 'the request body is not valid JSON: it is not UTF-8',
    })
  })
})
