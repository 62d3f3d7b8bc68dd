import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { groupPlaces } from './group-places.ts'

describe('the name of a group', () => {
  it('is written among most of its points, not between its parts', () => {
    // Group 0: ten points around (0, 0) and four around (100, 0). Group 1: around (100, 100).
    const points = [
      ...Array.from({ length: 10 }, (_, index) => [0, index / 10, 0]),
      ...Array.from({ length: 4 }, () => [0, 100, 0]),
      ...Array.from({ length: 5 }, () => [1, 100, 100]),
      [-1, 50, 50],
    ]
    const positions = Float32Array.from(points.flatMap(([, x, y]) => [x!, y!]))
    const places = groupPlaces(
      positions,
      Int16Array.from(points, ([group]) => group!),
      3,
    )
    assert.ok(Math.abs(places[0]![0] - 0.45) < 1e-6 && places[0]![1] === 0, `${places[0]}`)
    assert.deepEqual(places.slice(1), [[100, 100], undefined])
  })

  it('is not written where most points belong to other groups', () => {
    const groupOf = Int16Array.of(0, 0, 0, 1, 1, -1, -1, -1, 1)
    const positions = Float32Array.from(groupOf, () => 0)
    const both = Float32Array.from([...positions, ...positions])
    assert.deepEqual(groupPlaces(both, groupOf, 2), [undefined, undefined])
    assert.deepEqual(groupPlaces(both, groupOf.fill(0, 3, 5), 2), [[0, 0], undefined])
  })

  it('has a place even if all points coincide', () => {
    assert.deepEqual(groupPlaces(new Float32Array(4), new Int16Array(2), 1), [[0, 0]])
    assert.deepEqual(groupPlaces(new Float32Array(), new Int16Array(), 1), [undefined])
  })
})
