import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { noCollections } from '../../test/support/no-collections.ts'
import { DatabaseError } from '../base/errors.ts'
import type { NewPoint } from '../base/point.ts'
import type { Inserted, InsertOptions } from '../points/database.ts'
import { type ApiContext, type Database, httpFields } from './call.ts'
import { type InsertedBatch, insertVectorsBatch, type OnErrorInput } from './insert-points.ts'
import type { PointInput } from './validation.ts'

const dimension = 2
const stored = ['id 0', 'id 1']

/** Inserts items with a key and `on_error: continue`. The database answers with the ids of two points. */
async function insertKeyed(
  items: readonly PointInput[],
  refused?: string,
): Promise<{ readonly ids: InsertedBatch['ids']; readonly bodyHash: string }> {
  let bodyHash = ''
  const database = {
    dimension,
    async insert(_: readonly NewPoint[], { identity }: InsertOptions): Promise<Inserted> {
      bodyHash = Buffer.from(identity!.bodyHash).toString('hex')
      return { ids: stored, errors: [] }
    },
  }
  const context: ApiContext = {
    database: database as unknown as Database,
    collections: noCollections,
    limits: { maxLimit: 10, hnswEf: 10 },
    embeddings: {
      model: 'a model',
      maxTextBytes: 100,
      embed: async (texts) =>
        texts.map((text) =>
          text === refused ? new DatabaseError('invalid_argument', 'too long') : new Float32Array(dimension),
        ),
    },
  }
  const onError: OnErrorInput = {
    value: 'continue',
    // biome-ignore lint/correctness/useYield: the value is found in one step
    *find() {
      return 'continue'
    },
  }
  const call = { fields: httpFields, idempotencyKey: 'a key' }
  const { ids } = await insertVectorsBatch(context, { vectors: items, onError }, call)
  return { ids, bodyHash }
}

const text = (content: string): PointInput => ({ payload: { contentType: 'Text', content } })

describe('the errors of a batch that continues', () => {
  it('count all items of the request', async () => {
    const database = {
      dimension,
      async insert(): Promise<Inserted> {
        const message = 'vectors[1].id equals vectors[0].id: the ids of a request must differ'
        return {
          ids: ['id 0', null],
          errors: [{ index: 1, error: new DatabaseError('invalid_argument', message) }],
        }
      },
    }
    const context: ApiContext = {
      database: database as unknown as Database,
      collections: noCollections,
      limits: { maxLimit: 10, hnswEf: 10 },
    }
    const good = { vector: new Float32Array(dimension), payload: { contentType: 'Text', content: '' } }
    const vectors = [{ payload: good.payload }, good, { payload: good.payload }, good]
    // biome-ignore lint/correctness/useYield: the value is found in one step
    const find = function* () {
      return 'continue'
    }
    const call = { fields: httpFields }
    const { ids, errors } = await insertVectorsBatch(
      context,
      { vectors, onError: { value: 'continue', find } },
      call,
    )
    assert.deepEqual(ids, [null, 'id 0', null, null])
    assert.deepEqual(
      errors?.map(({ index, error }) => [index, error.message.slice(0, 33)]),
      [
        [0, 'vectors[0].vector is missing'],
        [2, 'vectors[2].vector is missing'],
        [3, 'vectors[3].id equals vectors[1].id'.slice(0, 33)],
      ],
    )
  })
})

describe('a keyed batch that continues after errors', () => {
  it('is identified as by earlier versions if no text is refused', async () => {
    const { ids, bodyHash } = await insertKeyed([text('a'), text(' '), text('b')])
    assert.deepEqual(ids, ['id 0', null, 'id 1'])
    assert.equal(bodyHash, '38c63c150785155411f716360ec22ded')
  })

  it('is identified by the texts that are refused, too', async () => {
    const bodies = [
      await insertKeyed([text('a'), text('b')]),
      await insertKeyed([text('a'), text('b'), text('c')], 'c'),
      await insertKeyed([text('a'), text('b'), text('c')], 'b'),
      await insertKeyed([text('a'), text('b'), text(' ')]),
      await insertKeyed([text('a'), text(' '), text('b')]),
    ]
    assert.equal(new Set(bodies.map(({ bodyHash }) => bodyHash)).size, bodies.length)
  })
})
