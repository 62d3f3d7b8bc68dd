import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { GeoPoint } from '../base/attributes.ts'
import { boxTest } from './geo-field.ts'

describe('a box at the 180th meridian', () => {
  const corners = {
    'west of it': [170, 180],
    'east of it': [-180, -170],
    'across it': [170, -170],
    'around the world': [-180, 180],
    'away from it': [-170, 170],
  } as const
  for (const [where, [west, east]] of Object.entries(corners)) {
    it(`contains 180 as well as -180, or neither: ${where}`, () => {
      const box = boxTest(new GeoPoint(-1, west), new GeoPoint(1, east))
      const isIn = where !== 'away from it'
      for (const lon of [180, -180]) {
        assert.equal(box.accepts(0, lon), isIn)
        const ranges = box.lonRanges.filter(([min, max]) => lon >= min && lon <= max)
        assert.equal(ranges.length > 0, isIn)
      }
      assert.equal(box.accepts(0, 0), where === 'around the world' || where === 'away from it')
      assert.equal(box.accepts(2, 180), false)
    })
  }
})
