import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SharedMemoryDocuments } from '../../../test/support/memory-log.ts'
import { type Beginning, placeOf } from './founding.ts'

describe('a node that has never applied a log', () => {
  it('founds a log that has all of its records, with or without points', async () => {
    for (const hasPoints of [false, true]) {
      assert.deepEqual(await placeOf(beginning({ hasPoints })), { position: 0, clockUs: 0 })
    }
  })

  it('is refused with points of its own by a log that was trimmed, even if it has the name of the founder', async () => {
    const documents = new SharedMemoryDocuments().connect()
    await placeOf(beginning({ documents, hasPoints: true }))
    const trimmed = { documents, log: logFrom(40_000) }
    await assert.rejects(placeOf(beginning({ ...trimmed, hasPoints: true })), foreign)
    await assert.rejects(placeOf(beginning({ ...trimmed, hasPoints: false })), { name: 'NeedsReplica' })
  })
})

const foreign = { name: 'Error', message: /points that are not from this cluster/ }

function beginning(given: Partial<Beginning>): Beginning {
  const documents = new SharedMemoryDocuments().connect()
  return {
    log: logFrom(1),
    documents,
    logId: 'log',
    node: 'a',
    applied: undefined,
    stored: 0,
    hasPoints: false,
    ...given,
  }
}

/** A log whose first record is at a position. */
function logFrom(first: number): Beginning['log'] {
  return { bounds: async () => ({ first, last: first + 9, bytes: 0, bytesMax: 0 }) }
}
