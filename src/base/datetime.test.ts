import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { DateTime, dateTimeOf, formatDateTime, parseDateTime } from './attributes.ts'

const firstUs = Date.UTC(2001, 0, 1) * 1000 - 2000 * 365.2425 * 86_400 * 1e6
const lastUs = Date.UTC(9999, 11, 31, 23, 59, 59) * 1000

describe('a moment as text', () => {
  for (const [text, us] of [
    ['1970-01-01T00:00:00Z', 0],
    ['1970-01-01t00:00:00.000001z', 1],
    ['1969-12-31T23:59:59.999999Z', -1],
    ['2026-11-22T10:00:00.5+01:30', Date.UTC(2026, 10, 22, 8, 30, 0, 500) * 1000],
    ['2024-02-29T12:00:00-00:00', Date.UTC(2024, 1, 29, 12) * 1000],
    ['2000-02-29T00:00:00Z', Date.UTC(2000, 1, 29) * 1000],
    ['0001-01-01T00:00:00Z', firstUs],
    ['9999-12-31T23:59:59Z', lastUs],
  ] as const) {
    it(`is read: ${text}`, () => assert.equal(parseDateTime(text)?.us, us))
  }

  for (const text of [
    '',
    '2026-11-22',
    '2026-11-22T10:00:00',
    '2026-11-22 10:00:00Z',
    '2026-11-22T10:00Z',
    '2026-11-22T10:00:00.Z',
    '2026-11-22T10:00:00.1234567Z',
    '2026-11-22T24:00:00Z',
    '2026-11-22T23:60:00Z',
    '2026-12-31T23:59:60Z',
    '2026-11-22T10:00:00+24:00',
    '2026-11-22T10:00:00+0100',
    '2026-00-22T10:00:00Z',
    '2026-13-22T10:00:00Z',
    '2026-11-31T10:00:00Z',
    '2026-02-29T10:00:00Z',
    '1900-02-29T10:00:00Z',
    '0000-12-31T23:59:59Z',
    '0001-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    // In this year, float64 represents only every 32nd microsecond.
    '9999-12-31T23:59:59.000001Z',
    ' 2026-11-22T10:00:00Z',
    '2026-11-22T10:00:00Z\n',
    `2026-11-22T10:00:00Z${' '.repeat(100_000)}`,
  ]) {
    it(`is refused: ${JSON.stringify(text.slice(0, 40))}`, () => assert.equal(parseDateTime(text), undefined))
  }

  it('is written in UTC, with only the digits that it needs', () => {
    const written = (text: string): string => formatDateTime(parseDateTime(text)!)
    assert.equal(written('2026-11-22T10:00:00.500+01:00'), '2026-11-22T09:00:00.5Z')
    assert.equal(written('2026-11-22T10:00:00.000Z'), '2026-11-22T10:00:00Z')
    assert.equal(written('0001-01-01T00:00:00.001280Z'), '0001-01-01T00:00:00.00128Z')
    assert.equal(written('1969-12-31T23:59:59.999999Z'), '1969-12-31T23:59:59.999999Z')
  })

  it('is the same moment after writing and reading, in any year', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: BigInt(firstUs), max: BigInt(lastUs) }), (us) => {
        const moment = dateTimeOf(Number(us))!
        assert.deepEqual(parseDateTime(formatDateTime(moment)), moment)
      }),
      { numRuns: 2000 },
    )
  })

  it('is made only of microseconds that float64 represents', () => {
    assert.deepEqual(dateTimeOf(2n ** 53n), new DateTime(2 ** 53))
    assert.equal(dateTimeOf(2n ** 53n + 1n), undefined)
    assert.equal(dateTimeOf(0.5), undefined)
    assert.equal(dateTimeOf(Number.NaN), undefined)
    assert.equal(dateTimeOf(Number.POSITIVE_INFINITY), undefined)
    assert.equal(dateTimeOf(firstUs - 1_000_000), undefined)
    assert.equal(dateTimeOf(lastUs + 1_000_000), undefined)
    assert.equal(dateTimeOf(-(2n ** 63n)), undefined)
    assert.ok(Object.is(dateTimeOf(-0)?.us, 0))
  })
})
