import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import type { Job } from './messages.ts'
import { type Item, Sender } from './sender.ts'

const item: Item = {
  place: 1,
  point: { vector: Float32Array.of(1), payload: { contentType: 'Text', content: 'a' } },
}

describe('the sender of an import', () => {
  let statuses: number[] = []
  let reasons: (string | undefined)[] = []
  let body: unknown
  const stop = new AbortController()
  const { signal } = stop

  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] })
    mock.method(globalThis, 'fetch', async (_: unknown, request: { readonly body: string }) => {
      const status = statuses.shift()!
      body = JSON.parse(request.body)
      if (status === 200) {
        const errors = [{ index: 0, status: 409, message: 'vectors[0].id: it exists' }]
        return new Response(JSON.stringify({ point_ids: [null, 'b'], errors }), { status: 201 })
      }
      return new Response(status === 201 ? '{"point_ids":["a"]}' : 'the server is busy', { status })
    })
    reasons = []
  })

  afterEach(() => {
    mock.timers.reset()
    mock.restoreAll()
  })

  const senderOf = (): Sender =>
    new Sender(
      { url: 'http://localhost/points/batch', key: undefined, importId: 'an-import' } as Job,
      { onRefused: () => undefined, onWaiting: (reason) => reasons.push(reason) },
      signal,
    )

  /** Resolves when the sender waits for its nth retry. */
  const untilRetries = async (count: number): Promise<void> => {
    while (reasons.length < count) await new Promise((resolve) => setImmediate(resolve))
  }

  it('retries a batch while the server is busy, and leaves no listener behind', async () => {
    statuses = [503, 429, 201]
    const storing = senderOf().store([item])
    for (const [index, ms] of [250, 500].entries()) {
      await untilRetries(index + 1)
      assert.equal(getEventListeners(signal, 'abort').length, 1)
      mock.timers.tick(ms)
    }
    assert.deepEqual(await storing, ['a'])
    assert.deepEqual(reasons, ['the server is busy', 'the server is busy', undefined])
    assert.equal(getEventListeners(signal, 'abort').length, 0)
  })

  it('stores items with ids as far as it can, and names the others', async () => {
    statuses = [200]
    const refused: string[] = []
    const sender = new Sender(
      { url: 'http://localhost/points/batch', key: undefined, importId: 'an-import' } as Job,
      { onRefused: (place, message) => refused.push(`${place} ${message}`), onWaiting: () => undefined },
      signal,
    )
    const ids = ['07000000-0000-4000-8000-000000000000', '08000000-0000-4000-8000-000000000000']
    const items = ids.map((id, at) => ({ place: 5 + at, point: { ...item.point, id } }))
    assert.deepEqual(await sender.store(items), ['b'])
    assert.deepEqual(refused, ['5 id: it exists'])
    assert.equal((body as { readonly on_error?: string }).on_error, 'continue')
  })

  it('stops while it waits for a retry', async () => {
    statuses = [503]
    const storing = senderOf().store([item])
    await untilRetries(1)
    stop.abort()
    await assert.rejects(storing, { name: 'AbortError' })
    assert.equal(getEventListeners(signal, 'abort').length, 0)
  })
})
