import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseVector, vectorPreview, vectorText } from './vector-text.ts'

describe('a pasted vector', () => {
  it('may be a JSON array, an object with a vector, or numbers with any separators', () => {
    for (const text of [
      '[1, -2.5, 3e-2]',
      '1,-2.5,0.03',
      '1 -2.5\n 0.03',
      '(1; -2.5; 0.03)',
      '{"vector":[1,-2.5,0.03]}',
    ]) {
      assert.deepEqual(parseVector(text), { vector: [1, -2.5, 0.03] }, text)
    }
  })

  it('is refused with the position of the error', () => {
    assert.deepEqual(parseVector('1, x, 3'), { fault: 'Number 2 is not a number: x' })
    assert.deepEqual(parseVector('1, NaN'), { fault: 'Number 2 is not a number: NaN' })
    for (const text of ['', '[]', '{"a":1}', '{"vector":']) assert.ok('fault' in parseVector(text), text)
  })

  it('keeps its numbers when it is written and read again', () => {
    const vector = [0.1, -1 / 3, 1e-30, 123456789]
    assert.deepEqual(parseVector(vectorText(vector)), { vector })
    assert.equal(vectorPreview(vector, 2), '[0.1, -0.3333, … 4 numbers]')
  })
})
