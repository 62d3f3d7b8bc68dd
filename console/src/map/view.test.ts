import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { colouringOf } from './colours.ts'
import { boundsOf, fit, pointAt, pointsInside, toPlane, toScreen, zoomAt } from './view.ts'

const size = { width: 400, height: 300 }
const positions = Float32Array.of(0, 0, 10, 0, 10, 5, 0, 5)

describe('a view', () => {
  it('shows all points within a margin', () => {
    const view = fit(boundsOf(positions), size)
    for (let point = 0; point < 4; point++) {
      const [x, y] = toScreen(view, size, positions[point * 2]!, positions[point * 2 + 1]!)
      assert.ok(x >= 20 && x <= 380 && y >= 20 && y <= 280, `${x} ${y}`)
    }
    assert.deepEqual(fit(boundsOf(new Float32Array()), size), { x: 0, y: 0, scale: 1 })
  })

  it('keeps the place under the pointer when it zooms', () => {
    const view = fit(boundsOf(positions), size)
    const pointer = [123, 45] as const
    const before = toPlane(view, size, pointer)
    const after = toPlane(zoomAt(view, size, pointer, 3), size, pointer)
    assert.ok(Math.hypot(before[0] - after[0], before[1] - after[1]) < 1e-9)
  })
})

describe('points of a map', () => {
  it('are found near a place', () => {
    assert.equal(pointAt(positions, [9.5, 0.2], 1), 1)
    assert.equal(pointAt(positions, [5, 2.5], 1), -1)
  })

  it('are selected by a line around them', () => {
    const line = [
      [-1, -1],
      [11, -1],
      [11, 1],
      [-1, 1],
    ] as const
    assert.deepEqual(pointsInside(positions, line), [0, 1])
    assert.deepEqual(pointsInside(positions, []), [])
  })
})

describe('colours', () => {
  it('are distinct for frequent values, and grey for the rest', () => {
    const values = Array.from({ length: 40 }, (_, index) => (index < 12 ? 'often' : `rare ${index}`))
    const { legend, rgb } = colouringOf([...values, undefined])
    assert.deepEqual([legend[0]!.text, legend[0]!.count], ['often', 12])
    assert.equal(legend.at(-1)!.text, 'other')
    assert.equal(
      legend.reduce((sum, { count }) => sum + count, 0),
      41,
    )
    assert.equal(rgb.length, 41 * 3)
  })

  it('form a scale for many numbers', () => {
    const { legend, rgb } = colouringOf(Array.from({ length: 50 }, (_, index) => index))
    assert.deepEqual(
      legend.map(({ text }) => text),
      ['0', '24.5', '49'],
    )
    assert.notDeepEqual(rgb.slice(0, 3), rgb.slice(-3))
  })
})
