import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { arrange, type Neighbours, pairsOf, randomFrom, startOf } from './layout.ts'

const k = 6

describe('a layout', () => {
  it('keeps groups together and apart from each other', () => {
    const groups = 3
    const each = 40
    const positions = layoutOf(groupsOf(groups, each))
    const centres = Array.from({ length: groups }, (_, group) => centreOf(positions, group * each, each))
    for (let point = 0; point < groups * each; point++) {
      const distances = centres.map(([x, y]) =>
        Math.hypot(positions[point * 2]! - x, positions[point * 2 + 1]! - y),
      )
      assert.equal(distances.indexOf(Math.min(...distances)), Math.floor(point / each), `point ${point}`)
    }
  })

  it('places neighbours on a ring nearer than its far side', () => {
    const count = 60
    const positions = layoutOf(ringOf(count))
    const between = (one: number, other: number): number =>
      Math.hypot(
        positions[one * 2]! - positions[other * 2]!,
        positions[one * 2 + 1]! - positions[other * 2 + 1]!,
      )
    let near = 0
    let far = 0
    for (let point = 0; point < count; point++) {
      near += between(point, (point + 1) % count)
      far += between(point, (point + count / 2) % count)
    }
    assert.ok(near * 3 < far, `${near} ${far}`)
  })

  it('is the same for the same neighbours', () => {
    assert.deepEqual(layoutOf(ringOf(30)), layoutOf(ringOf(30)))
  })

  it('has finite positions for points without neighbours and for equal points', () => {
    const lonely = neighbours(5, () => [])
    assert.ok(layoutOf(lonely).every(Number.isFinite))
    const equal = neighbours(20, (point) => [1, 2, 3].map((step) => [(point + step) % 20, 0]))
    assert.ok(layoutOf(equal).every(Number.isFinite))
  })
})

describe('pairs of neighbours', () => {
  it('are listed once, and weigh more if both points list each other', () => {
    const pairs = pairsOf(
      neighbours(3, (point) =>
        point === 2
          ? [
              [0, 1],
              [1, 2],
            ]
          : [[1 - point, 1]],
      ),
    )
    const listed = Array.from(pairs.from, (from, index) => [from, pairs.to[index]])
    assert.deepEqual(listed, [
      [0, 1],
      [2, 0],
      [2, 1],
    ])
    assert.equal(pairs.weight[0], 1)
    assert.ok(pairs.weight[2]! < 1)
  })
})

function layoutOf(given: Neighbours): Float32Array {
  const random = randomFrom(1)
  const pairs = pairsOf(given)
  const positions = startOf(given.count, pairs, random)
  for (const share of arrange(positions, pairs, random)) assert.ok(share > 0 && share <= 1)
  return positions
}

/** Points whose neighbours are all in the same group. */
function groupsOf(groups: number, each: number): Neighbours {
  return neighbours(groups * each, (point) => {
    const start = Math.floor(point / each) * each
    return Array.from({ length: k }, (_, index) => [
      start + ((point - start + (index + 1) * 7) % each),
      index + 1,
    ])
  })
}

function ringOf(count: number): Neighbours {
  return neighbours(count, (point) =>
    [1, -1, 2, -2, 3, -3].map((step) => [(point + step + count) % count, Math.abs(step)]),
  )
}

function neighbours(count: number, of: (point: number) => readonly (readonly number[])[]): Neighbours {
  const ids = new Int32Array(count * k).fill(-1)
  const distances = new Float32Array(count * k)
  for (let point = 0; point < count; point++) {
    for (const [place, [id, distance]] of of(point).entries()) {
      ids[point * k + place] = id!
      distances[point * k + place] = distance!
    }
  }
  return { count, k, ids, distances }
}

function centreOf(positions: Float32Array, start: number, count: number): readonly [number, number] {
  let [x, y] = [0, 0]
  for (let point = start; point < start + count; point++) {
    x += positions[point * 2]!
    y += positions[point * 2 + 1]!
  }
  return [x / count, y / count]
}
