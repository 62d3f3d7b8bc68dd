import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { cursorAfter } from '../../points/insertion-order.ts'
import { PackedReader, PackedWriter } from '../log/packed-bytes.ts'
import { type OrderedPage, readPage, writePage } from './read-codec.ts'

const page: OrderedPage = {
  points: [{ id: '00112233-4455-6677-8899-aabbccddeeff', payload: undefined, vector: undefined, version: 7 }],
  orders: [5],
  nextCursor: cursorAfter(5),
  knownBelow: 65_536,
  visible: 300,
}

describe('a page on the link', () => {
  it('is read as it was written', async () => {
    const to = new PackedWriter()
    await writePage(to, page)
    assert.deepEqual(await readPage(new PackedReader(to.written)), page)
  })

  it('is read from a node of the previous version, which does not say what it knows', async () => {
    const to = new PackedWriter()
    await writePage(to, page)
    const former = to.written.subarray(0, -Float64Array.BYTES_PER_ELEMENT)
    assert.deepEqual(await readPage(new PackedReader(former)), {
      ...page,
      knownBelow: Number.POSITIVE_INFINITY,
    })
  })
})
