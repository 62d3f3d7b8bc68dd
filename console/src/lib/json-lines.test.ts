import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { guessMapping, parseObject, pointOf } from './import-mapping.ts'
import { linesOf } from './json-lines.ts'

describe('the lines of a file', () => {
  it('are numbered, with where they end, also when the parts of the file split them', async () => {
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

/** A file whose stream has parts of a certain size. */
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

describe('the fields of a file', () => {
  it('are guessed from its first objects', () => {
    const mapping = guessMapping([parseObject('{"id":"7","embedding":[1,2],"text":"a","price":5}')])
    assert.deepEqual(
      { vector: mapping.vector, content: mapping.content, id: mapping.id },
      { vector: 'embedding', content: 'text', id: '' },
    )
  })

  it('become a point', () => {
    const line = '{"embedding":[1,2],"text":"a","price":5}'
    const mapping = guessMapping([parseObject(line)])
    assert.deepEqual(pointOf(line, mapping, true), {
      vector: [1, 2],
      payload: { content_type: 'Text', content: 'a', attributes: { price: 5 } },
    })
    assert.deepEqual(pointOf(line, mapping, false).payload, { content_type: 'Text', content: 'a' })
  })

  it('of an export are read as they were written', () => {
    const id = '8f14e45f-ceea-467f-a8d0-2b4e1c9f7a63'
    const line = `{"id":"${id}","vector":[1],"payload":{"content_type":"Text","content":"a","attributes":{"b":1}}}`
    assert.deepEqual(pointOf(line, guessMapping([parseObject(line)]), true), {
      id,
      vector: [1],
      payload: { content_type: 'Text', content: 'a', attributes: { b: 1 } },
    })
  })

  it('that do not fit are refused', () => {
    const mapping = guessMapping([parseObject('{"vector":[1],"text":"a"}')])
    assert.throws(
      () => pointOf('{"vector":["1"],"text":"a"}', mapping, false),
      /vector is not a list of numbers/,
    )
    assert.throws(() => pointOf('{"vector":[1]}', mapping, false), /text is not a text/)
    assert.throws(() => pointOf('[1]', mapping, false), /not a JSON object/)
    assert.throws(() => pointOf('{', mapping, false), SyntaxError)
  })
})
