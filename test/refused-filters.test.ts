import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { DatabaseError } from '../src/base/errors.ts'
import type { Filter, PointToInsert } from '../src/client/index.ts'
import { describeBoth } from './support/both-transports.ts'
import { Desk } from './support/desk.ts'
import { vicinal } from './support/programs.ts'

/**
 * Filters with a part that a transport cannot send. Without that part, each of them would match points that its caller
 * did not mean, so both clients refuse it, or let the service refuse it.
 */

const points: readonly PointToInsert[] = [1, 2, 3].map((price) => ({
  vector: [price, 1],
  payload: { contentType: 'Text', content: '', attributes: { shop: 'x', price } },
}))

/** Faulty filters as a program or JSON can hold them, and the place that the refusal names. */
const faulty: readonly (readonly [filter: unknown, place: string])[] = [
  [{ shop: 'x', price: {} }, 'filter.price'],
  [{ shop: 'x', price: undefined }, 'filter.price'],
  [{ shop: 'x', price: { $gte: undefined } }, 'filter.price'],
  [{ shop: 'x', price: { $gte: 2, $lt: undefined } }, 'filter.price.$lt'],
  [{ shop: 'x', price: { $eq: undefined } }, 'filter.price'],
  [{ shop: 'x', price: { $exists: undefined } }, 'filter.price'],
  [{ shop: 'x', price: { constructor: 1 } }, 'filter.price.constructor'],
  [{ shop: 'x', $id: {} }, 'filter.$id'],
  [{ shop: 'x', $and: undefined }, 'filter.$and'],
  [{ $or: [{ shop: 'y' }, { price: {} }] }, 'filter.$or[1].price'],
  [{ $not: { shop: 'x', price: {} } }, 'filter.$not.price'],
  [{ shop: 'x', $and: [[]] }, 'filter.$and[0]'],
  [{ shop: 'x', $and: [5] }, 'filter.$and[0]'],
  [{ $or: [new Date(0)] }, 'filter.$or[0]'],
  [{ shop: 'x', $not: [] }, 'filter.$not'],
  [{ missing: Number.NaN }, 'filter.missing'],
  [{ shop: { $exists: 'no' } }, 'filter.shop.$exists'],
  [{ shop: { $prefix: 5 } }, 'filter.shop.$prefix'],
  [{ price: { $nin: 5 } }, 'filter.price.$nin'],
  [{ $not: { at: { $near: { lat: 1, lon: 2 } } } }, 'filter.$not.at.$near'],
  [{ $not: { at: { $near: { lat: 1, lon: 2, radius: 5 } } } }, 'filter.$not.at.$near'],
  [{ $not: { at: { $box: { south_west: { lat: 1 }, north_east: { lat: 2, lon: 2 } } } } }, 'filter.$not.at'],
  [{ shop: { $ne: 'a\ud800' } }, 'filter.shop.$ne'],
  [{ shop: { $nin: ['a', 'a\ud800'] } }, 'filter.shop.$nin[1]'],
]

describeBoth('a filter with a faulty part', (transport) => {
  it('is refused in any operation, and changes nothing', async () => {
    const { client } = transport
    await client.insertBatch(points)
    for (const [filter, place] of faulty) {
      const where = filter as Filter
      const isRefusal = (error: unknown): boolean => {
        assert.ok(error instanceof DatabaseError, String(error))
        assert.equal(error.reason, 'invalid_argument', error.message)
        assert.ok(error.message.startsWith(place), `${error.message} does not begin with ${place}`)
        return true
      }
      await assert.rejects(client.deleteMatching({ filter: where }), isRefusal, place)
      await assert.rejects(client.count(where), isRefusal, place)
      await assert.rejects(
        client.search({ vector: [1, 1], metric: 'Cosine', limit: 1, filter: where }),
        isRefusal,
      )
    }
    assert.equal(await client.count(), points.length)
  })

  it('may still be empty where that is clear, or test an absent value', async () => {
    const { client } = transport
    await client.insertBatch(points)
    assert.equal(await client.count({ shop: 'x', $and: [] }), await client.count())
    assert.equal(await client.count({ missing: null, price: { $nin: [] } }), await client.count())
    assert.equal(await client.count({ price: { $in: [] } }), 0)
  })
})

describe('the tool delete of vicinal mcp', () => {
  it('refuses a filter without an operator over gRPC, and deletes nothing', async () => {
    await using desk = await Desk.open()
    await desk.client.insertBatch(points)
    const client = new Client({ name: 'test', version: '1' })
    const args = [vicinal, 'mcp', '--write', ...desk.overGrpc]
    await client.connect(new StdioClientTransport({ command: process.execPath, args }))
    const { content } = await client.callTool({
      name: 'delete',
      arguments: { filter: { shop: 'x', price: {} } },
    })
    await client.close()
    const [part] = content as { text: string }[]
    assert.match(part!.text, /^invalid_argument: filter\.price has no operator/)
    assert.equal(await desk.client.count(), points.length)
  })
})
