import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DateTime } from './attributes.ts'
import { fromBytes, toBytes } from './plain-values.ts'
import { atOnce } from './turns.ts'

describe('values as bytes', () => {
  it('have the same format on all versions of Node that run in one cluster', () => {
    const bytes = atOnce(toBytes({ at: new DateTime(5) }))
    assert.equal(bytes.subarray(0, 2).toString('hex'), 'ff0f')
  })

  it('are written and read in a step for each element of long lists and maps', () => {
    const hit = { payload: { content: 'ä', attributes: new Map([['at', new DateTime(5)]]) }, none: undefined }
    const value = {
      visible: 3,
      answer: {
        details: [Array(40).fill(hit), undefined, [], [hit]],
        counts: new Map(Array.from({ length: 50 }, (_, index) => [index, [{ value: 'x', count: index }]])),
        bytes: Float64Array.of(1, Number.NaN),
        numbers: Array.from({ length: 100 }, (_, index) => index),
        texts: Array.from({ length: 2_500 }, (_, index) => String(index)),
      },
    }
    const written = stepsOf(toBytes(value))
    let elements = 0
    const count = (element: object): void => {
      assert.ok('payload' in element)
      elements += 1
    }
    const read = stepsOf(fromBytes(written.result, count))
    assert.deepEqual(read.result, value)
    const steps = 40 + 4 + 50 + 3
    assert.deepEqual([written.steps, read.steps, elements], [steps, steps, 40])
  })

  it('take no steps for short values', () => {
    const value = [{ lists: [[{ a: 1 }], [{ a: new DateTime(2) }]] }, new Map([['b', [{}]]])]
    const written = stepsOf(toBytes(value))
    const read = stepsOf(fromBytes(written.result))
    assert.deepEqual(read, { steps: 0, result: value })
    assert.equal(written.steps, 0)
  })
})

function stepsOf<Result>(work: Iterator<void, Result>): { readonly steps: number; readonly result: Result } {
  for (let steps = 0; ; steps += 1) {
    const step = work.next()
    if (step.done) return { steps, result: step.value }
  }
}
