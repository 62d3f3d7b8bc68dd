import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type PlacedSample, withChange } from './changed-sample.ts'
import type { MapPoint } from './sample.ts'

const pointOf = (id: string): MapPoint => ({ id, payload: { content_type: 'Text', content: `of ${id}` } })

const placed: PlacedSample = {
  sample: {
    points: ['a', 'b', 'c'].map(pointOf),
    neighbours: {
      count: 3,
      k: 2,
      ids: Int32Array.of(1, 2, 0, -1, 1, 0),
      distances: Float32Array.of(0.25, 0.5, 0.25, 0, 1, 2),
    },
    matching: 9,
    paths: ['kind'],
  },
  positions: Float32Array.of(0, 1, 2, 3, 4, 5),
}

describe('a sample of the map', () => {
  it('shows the new payload of a changed point in the same place', () => {
    const payload = { content_type: 'Text', content: 'new' } as const
    const { sample, positions } = withChange(placed, 'b', payload)
    assert.deepEqual(sample.points, [pointOf('a'), { id: 'b', payload }, pointOf('c')])
    assert.equal(sample.neighbours, placed.sample.neighbours)
    assert.equal(positions, placed.positions)
  })

  it('loses a deleted point, and the other points keep their places and neighbours', () => {
    const { sample, positions } = withChange(placed, 'b', undefined)
    assert.deepEqual(sample, {
      points: [pointOf('a'), pointOf('c')],
      neighbours: {
        count: 2,
        k: 2,
        // The point c has the number 1 now.
        ids: Int32Array.of(-1, 1, -1, 0),
        distances: Float32Array.of(0.25, 0.5, 1, 2),
      },
      matching: 8,
      paths: ['kind'],
    })
    assert.deepEqual(positions, Float32Array.of(0, 1, 4, 5))
  })

  it('does not change with a point that it does not contain', () => {
    assert.equal(withChange(placed, 'd', undefined), placed)
  })
})
