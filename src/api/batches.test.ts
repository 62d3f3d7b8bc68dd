import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { noCollections } from '../../test/support/no-collections.ts'
import { idAnswer } from '../../test/support/search-answers.ts'
import { DatabaseError } from '../base/errors.ts'
import { IdLists, type SearchResults } from '../base/id-lists.ts'
import type { NewPoint } from '../base/point.ts'
import type { Inserted } from '../points/database.ts'
import { type ApiContext, type Call, type Database, httpFields } from './call.ts'
import { insertVectorsBatch } from './insert-points.ts'
import { type SearchInput, searchPointsBatch } from './search-points.ts'
import type { PointInput } from './validation.ts'

/** Batches so large that they yield to other calls, and what those calls can do meanwhile. */

const fields = httpFields
const payload = { contentType: 'Text', content: '' }

/** A database that only records its calls, and whose dimension can change at any time. */
class NotingDatabase {
  dimension: number | undefined
  readonly inserted: (readonly NewPoint[])[] = []
  searches = 0

  constructor(dimension?: number) {
    this.dimension = dimension
  }

  async insert(points: readonly NewPoint[]): Promise<Inserted> {
    this.inserted.push(points)
    return { ids: points.map((_, index) => String(index)), errors: [] }
  }

  async search(queries: readonly unknown[]): Promise<SearchResults> {
    this.searches += 1
    return idAnswer(IdLists.of(queries.map(() => []))).results
  }
}

function contextOf(database: NotingDatabase): ApiContext {
  return {
    database: database as unknown as Database,
    collections: noCollections,
    limits: { maxLimit: 10, hnswEf: 10 },
  }
}

/** Items that take about 1 ms each to decode. `atHalf` runs in another turn, while the second half is decoded. */
function* slowly<Item>(count: number, item: Item, atHalf: () => void): Generator<Item | undefined> {
  for (let index = 0; index < count; index += 1) {
    const endMs = performance.now() + 1
    while (performance.now() < endMs);
    if (index === Math.floor(count / 2)) setImmediate(atHalf)
    if (index % 3 === 0) yield undefined
    yield item
  }
}

const point: PointInput = { vector: Float32Array.of(1, 2), payload }
const query: SearchInput = { vector: Float32Array.of(1, 2), similarity: 'Euclidean', limit: 1 }

describe('a batch that is decoded in turns', () => {
  it('keeps all its items in order, and does not count an undefined as an item', async () => {
    const database = new NotingDatabase()
    const items = function* (): Generator<PointInput | undefined> {
      for (let index = 0; index < 50; index += 1) {
        yield* slowly(1, { vector: Float32Array.of(index), payload }, () => {})
      }
    }
    const { ids } = await insertVectorsBatch(contextOf(database), { vectors: items() }, { fields })
    assert.equal(ids.length, 50)
    assert.deepEqual(
      database.inserted[0]!.map(({ vector }) => vector[0]),
      Array.from({ length: 50 }, (_, index) => index),
    )
  })

  it('names a bad item by its index among the items', async () => {
    const items = [undefined, point, undefined, { ...point, vector: Float32Array.of(1) }]
    await assert.rejects(
      insertVectorsBatch(contextOf(new NotingDatabase(2)), { vectors: items }, { fields }),
      {
        reason: 'invalid_argument',
        message: 'vectors[1].vector has 1 dimensions, the collection has 2',
      },
    )
  })

  it('ends when its caller disconnects, before the rest is decoded, and stores nothing', async () => {
    for (const operation of ['insert', 'search'] as const) {
      const database = new NotingDatabase(2)
      const controller = new AbortController()
      let decoded = 0
      const counted = function* <Item>(items: Iterable<Item>): Generator<Item> {
        for (const item of items) {
          decoded += 1
          yield item
        }
      }
      const leave = (): void =>
        controller.abort(new DatabaseError('deadline_exceeded', 'the deadline of the call has passed'))
      const call: Call = { fields, signal: controller.signal }
      const context = contextOf(database)
      const running =
        operation === 'insert'
          ? insertVectorsBatch(context, { vectors: counted(slowly(60, point, leave)) }, call)
          : searchPointsBatch(context, { queries: counted(slowly(60, query, leave)) }, call)
      await assert.rejects(running, { reason: 'deadline_exceeded' })
      assert.ok(decoded < 80, `${decoded} of 80 were decoded`)
      assert.deepEqual([database.inserted.length, database.searches], [0, 0])
    }
  })

  it('is refused when another call meanwhile stores the first point with a different dimension', async () => {
    const message = /^(vectors|queries)\[0\]\.vector has 2 dimensions, the collection has 3$/
    const inserting = new NotingDatabase()
    const vectors = slowly(20, point, () => {
      inserting.dimension = 3
    })
    await assert.rejects(insertVectorsBatch(contextOf(inserting), { vectors }, { fields }), {
      reason: 'invalid_argument',
      message,
    })
    assert.equal(inserting.inserted.length, 0)

    const searching = new NotingDatabase()
    const queries = slowly(20, query, () => {
      searching.dimension = 3
    })
    await assert.rejects(searchPointsBatch(contextOf(searching), { queries }, { fields }), {
      reason: 'invalid_argument',
      message,
    })
    assert.equal(searching.searches, 0)
  })

  it('reports that its bytes are no longer needed, before an insert waits for the disk', async () => {
    const database = new NotingDatabase()
    let insertsBefore = -1
    const call: Call = {
      fields,
      decoded() {
        insertsBefore = database.inserted.length
      },
    }
    await insertVectorsBatch(contextOf(database), { vectors: [point] }, call)
    assert.equal(insertsBefore, 0)
  })
})
