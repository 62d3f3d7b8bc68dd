import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { anomaliesAtRest, anomaliesOf, anomaliesOfSearch, type Read, type Write } from './history.ts'

const write = (changes: Partial<Write>): Write => ({
  kind: 'insert',
  group: 'g',
  startMs: 10,
  endMs: 20,
  outcome: 'ok',
  ...changes,
})
const read = (changes: Partial<Read>): Read => ({
  group: 'g',
  consistency: 'latest',
  startMs: 30,
  endMs: 40,
  isAfterInsert: false,
  by: 'count',
  found: 3,
  ...changes,
})
const sizes = new Map([['g', 3]])
const removal = write({ kind: 'delete', startMs: 50, endMs: 60 })

describe('the history checker', () => {
  it('finds nothing in a history that a single copy can show', () => {
    const writes = [write({}), removal]
    const reads = [
      read({ found: 0, startMs: 1, endMs: 5 }),
      read({ found: 0, startMs: 12, endMs: 15 }),
      read({ startMs: 13, endMs: 25 }),
      read({ found: 0, consistency: 'available' }),
      read({ found: 0, startMs: 51, endMs: 52 }),
      read({ found: 0, startMs: 70, endMs: 80 }),
      read({ found: 3, startMs: 70, endMs: 80, consistency: 'available' }),
    ]
    assert.deepEqual(anomaliesOf({ sizes, writes, reads }), [])
    const unknown = [write({ outcome: 'unknown' })]
    assert.deepEqual(anomaliesOf({ sizes, writes: unknown, reads: [read({ found: 0 })] }), [])
    assert.deepEqual(anomaliesOf({ sizes, writes: unknown, reads: [read({})] }), [])
  })

  const bad: Readonly<Record<string, { writes: Write[]; reads: Read[]; message: RegExp }>> = {
    'half a batch': { writes: [write({})], reads: [read({ found: 2 })], message: /found 2 of 3/ },
    'an acknowledged insert that a read does not see': {
      writes: [write({})],
      reads: [read({ found: 0 })],
      message: /did not find/,
    },
    'a session that does not read its own write': {
      writes: [write({})],
      reads: [read({ found: 0, consistency: 'session', isAfterInsert: true })],
      message: /did not find/,
    },
    'points that are seen before their insert': {
      writes: [write({})],
      reads: [read({ startMs: 1, endMs: 2 })],
      message: /before it was inserted/,
    },
    'points that are seen although they were refused': {
      writes: [write({ outcome: 'refused' })],
      reads: [read({})],
      message: /refused/,
    },
    'points that are seen after their deletion': {
      writes: [write({}), removal],
      reads: [read({ startMs: 61, endMs: 62 })],
      message: /after it was deleted/,
    },
    'points that appear, disappear and appear again': {
      writes: [write({ outcome: 'unknown' })],
      reads: [
        read({ startMs: 11, endMs: 12 }),
        read({ startMs: 13, endMs: 14, found: 0 }),
        read({ startMs: 15, endMs: 16 }),
      ],
      message: /come twice/,
    },
  }
  for (const [what, { writes, reads, message }] of Object.entries(bad)) {
    it(`finds ${what}`, () => {
      assert.match(anomaliesOf({ sizes, writes, reads }).join('\n'), message)
    })
  }

  it('finds lost points, refused or deleted ones, incomplete groups, and nodes that differ at rest', () => {
    const at = (a: number, b: number, ...writes: Write[]): string =>
      anomaliesAtRest(
        { sizes, writes, reads: [] },
        new Map([
          ['a', new Map([['g', a]])],
          ['b', new Map([['g', b]])],
        ]),
      ).join()
    assert.equal(at(3, 3, write({})), '')
    assert.equal(at(0, 0, write({}), removal), '')
    assert.equal(at(0, 0, write({ outcome: 'unknown' })), '')
    assert.match(at(0, 0, write({})), /a has lost g/)
    assert.match(at(3, 0, write({ outcome: 'unknown' })), /differ in g/)
    assert.match(at(2, 2, write({})), /has 2 points of g/)
    assert.match(at(3, 3, write({ outcome: 'refused' })), /which was refused/)
    assert.match(at(3, 3, write({}), removal), /which was deleted/)
  })

  it('finds searches at rest that lack a point, return one twice, or return one that does not exist', () => {
    const points = [0, 3, 1, 2].map((x) => ({ id: `p${x}`, vector: [x, 0] }))
    const found = (...ids: string[]): number => anomaliesOfSearch(points, [0, 0], 3, ids).length
    assert.equal(found('p0', 'p1', 'p2'), 0)
    assert.equal(anomaliesOfSearch(points, [1, 0], 2, ['p1', 'p0']).length, 0)
    assert.equal(anomaliesOfSearch(points, [1, 0], 2, ['p1', 'p2']).length, 0, 'equally far')
    for (const wrong of [['p0', 'p1'], ['p0', 'p1', 'p3'], ['p0', 'p1', 'p1'], ['p0', 'p1', 'p9'], []]) {
      assert.equal(found(...wrong), 1, `${wrong}`)
    }
  })
})
