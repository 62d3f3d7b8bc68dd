import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { judge, type Stored } from './truth.ts'

/** 0, 1, 2 ... 19 on a line, and 3 once more. */
const points = [...Array.from({ length: 20 }, (_, number) => Float32Array.of(number)), Float32Array.of(3)]
const stored: Stored = { points, inserted: [...points.keys()], isWhole: true }
const query = [Float32Array.of(0)]
const right = [0, 1, 2, 3, 20, 4, 5, 6, 7, 8]

function verdict(answer: readonly number[], now: Stored = stored): ReturnType<typeof judge> {
  return judge(now, query, 'Euclidean', [answer])
}

describe('the judge of the battery', () => {
  it('accepts the nearest points in order', () => {
    assert.deepEqual(verdict(right), { recall: 1, disordered: 0, short: 0 })
  })

  it('counts a point farther than the k-th nearest as a miss', () => {
    assert.equal(verdict([0, 1, 2, 3, 20, 4, 5, 6, 7, 19]).recall, 0.9)
  })

  it('accepts any point as near as the k-th nearest', () => {
    const ties = { ...stored, points: points.map(() => Float32Array.of(1)) }
    assert.equal(verdict([5, 6, 7, 8, 9, 10, 11, 12, 13, 14], ties).recall, 1)
  })

  it('detects a farther point before a nearer one, equal points not in insertion order, and a repeated point', () => {
    assert.equal(verdict([1, 0, 2, 3, 20, 4, 5, 6, 7, 8]).disordered, 1)
    assert.equal(verdict([0, 1, 2, 20, 3, 4, 5, 6, 7, 8]).disordered, 1)
    assert.equal(verdict([0, 1, 2, 3, 3, 4, 5, 6, 7, 8]).disordered, 1)
  })

  it('uses the order of insertion, not of numbers', () => {
    const inserted = [20, ...points.keys()].slice(0, points.length)
    assert.equal(verdict(right, { ...stored, inserted }).disordered, 1)
    assert.equal(verdict([0, 1, 2, 20, 3, 4, 5, 6, 7, 8], { ...stored, inserted }).disordered, 0)
  })

  it('detects an answer that is too short, but accepts one with all remaining points', () => {
    assert.deepEqual(verdict(right.slice(0, 9)), { recall: 0.9, disordered: 0, short: 1 })
    assert.deepEqual(verdict([0, 1], { ...stored, inserted: [0, 1] }), { recall: 1, disordered: 0, short: 0 })
  })
})
