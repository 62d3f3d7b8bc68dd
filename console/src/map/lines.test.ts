import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { linesOf } from './lines.ts'

function bodyOf(
  bytes: Uint8Array<ArrayBuffer>,
  size: number,
  onCancel = (): void => {},
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let at = 0
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close()
      controller.enqueue(bytes.slice(at, at + size))
      at += size
    },
    cancel: onCancel,
  })
}

describe('lines of a body', () => {
  it('are complete for any chunk size', async () => {
    const bytes = new TextEncoder().encode('{"a":"é 😀"}\n\nlast')
    for (const size of [1, 2, 3, 7, 100]) {
      const lines: string[] = []
      for await (const line of linesOf(bodyOf(bytes, size))) lines.push(line)
      assert.deepEqual(lines, ['{"a":"é 😀"}', '', 'last'], `${size}`)
    }
  })

  it('cancel the body when the caller stops early', async () => {
    const cancelled = Promise.withResolvers<void>()
    const bytes = new TextEncoder().encode('a\n'.repeat(1000))
    for await (const line of linesOf(bodyOf(bytes, 10, () => cancelled.resolve()))) {
      assert.equal(line, 'a')
      break
    }
    await cancelled.promise
  })
})
