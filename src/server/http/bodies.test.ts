import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { describe, it } from 'node:test'
import { ByteBudget } from '../../base/budgets.ts'
import { readBody } from './bodies.ts'

/** How a body of unknown length is kept while it arrives. */

/** Sends parts as a body. Afterwards the bytes of each part are overwritten, if `isReused`. */
async function received(
  parts: readonly Buffer[],
  { isReused }: { readonly isReused: boolean },
): Promise<{ readonly body: Buffer; readonly heldBytes: number }> {
  const request = Object.assign(new EventEmitter(), { headers: {} }) as unknown as IncomingMessage
  const requestBytes = new ByteBudget({ maxBytes: 2 ** 40, what: 'requests', setting: 'MAX_BUFFERED_BYTES' })
  const reading = readBody(request, { maxRequestBytes: 2 ** 30, requestBytes })
  for (const part of parts) {
    request.emit('data', part)
    if (isReused) part.fill('!')
  }
  const heldBytes = requestBytes.usedBytes
  request.emit('end')
  const body = await reading
  const bytes = body.take()
  body.release()
  assert.equal(requestBytes.usedBytes, 0)
  return { body: bytes, heldBytes }
}

function partsOf(sizes: readonly number[]): Buffer[] {
  return sizes.map((size, index) => Buffer.alloc(size, index % 32))
}

describe('a body of unknown length', () => {
  it('keeps only few of its small parts, and counts the memory for their copies', async () => {
    const count = 100_000
    const parts = partsOf(new Array(count).fill(1))
    const { body, heldBytes } = await received(parts, { isReused: true })
    assert.equal(body.length, count)
    const kept = body.filter((byte) => byte === 0x21).length
    assert.ok(kept <= 32, `${kept} parts were kept`)
    assert.ok(heldBytes > count && heldBytes < 2 * count, `${heldBytes} bytes are counted`)
  })

  it('is complete and in order, whatever the sizes of its parts', async () => {
    for (const sizes of [
      [],
      [5],
      [1, 2],
      new Array(33).fill(1),
      new Array(5000).fill(7),
      [...new Array(40).fill(3), 70_000, 1, 2, 4095, 4096, 4097, 1, 1, 70_000],
      Array.from({ length: 3000 }, (_, index) => (index % 3 === 0 ? 5000 : (index * 37) % 4096)),
    ]) {
      const parts = partsOf(sizes)
      const { body, heldBytes } = await received(parts, { isReused: false })
      const whole = Buffer.concat(parts)
      assert.ok(body.equals(whole))
      assert.ok(heldBytes >= whole.length && heldBytes <= 2 * whole.length + 4096)
    }
  })

  it('is not copied before it is complete if its parts are large or few', async () => {
    const parts = partsOf([...new Array(32).fill(10), 4096, 65_536])
    const { body, heldBytes } = await received(parts, { isReused: true })
    assert.ok(body.every((byte) => byte === 0x21))
    assert.equal(heldBytes, body.length)
    const only = Buffer.from('{}')
    assert.equal((await received([only], { isReused: false })).body, only)
  })
})
