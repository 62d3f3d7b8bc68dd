import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { linesOf } from './lines.ts'

describe('the lines of a file', () => {
  it('have a number and an end, even if chunks of the file split them', async () => {
    const bytes = new TextEncoder().encode('{"ä":1}\r\n\n{"b":2}\n{"c":3}')
    for (const partBytes of [1, 2, 5, 100]) {
      const lines = []
      for await (const line of linesOf(inParts(bytes, partBytes)))
        lines.push([line.number, line.text, line.endBytes])
      assert.deepEqual(lines, [
        [1, '{"ä":1}', 10],
        [3, '{"b":2}', 19],
        [4, '{"c":3}', 26],
      ])
    }
  })

  it('must be UTF-8', async () => {
    const read = async (): Promise<void> => {
      for await (const _line of linesOf(new Blob([Uint8Array.of(0x61, 0x0a, 0xff)])));
    }
    await assert.rejects(read, /^Error: Line 2 is not UTF-8\.$/)
  })
})

/** A file whose stream has chunks of `partBytes`. */
function inParts(bytes: Uint8Array, partBytes: number): Blob {
  const blob = new Blob([Uint8Array.from(bytes)])
  const stream = (): ReadableStream<Uint8Array<ArrayBuffer>> =>
    new ReadableStream({
      start(controller) {
        for (let start = 0; start < bytes.length; start += partBytes) {
          controller.enqueue(Uint8Array.from(bytes.subarray(start, start + partBytes)))
        }
        controller.close()
      },
    })
  return Object.assign(blob, { stream })
}
