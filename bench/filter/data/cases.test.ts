import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type DataSet, prepareSet } from '../../shared/data/data-set.ts'
import { matchingRows } from '../../shared/data/matching-rows.ts'
import { readRows } from '../../shared/data/matrix-file.ts'
import { casesOf, type FilterCase, kinds, relations } from './cases.ts'
import { type ExactAnswers, exactAnswers } from './exact-answers.ts'
import { centresByDistance } from './k-means.ts'
import { attributesOf, type SetAttributes } from './make-attributes.ts'

const cache = mkdtempSync(join(tmpdir(), 'vicinal-bench-'))
after(() => rmSync(cache, { recursive: true }))

const shares = [0.01, 0.1, 0.6, 0.9]
const k = 10
let set: DataSet
let attributes: SetAttributes
let cases: readonly FilterCase[]
let exact: readonly ExactAnswers[]

before(async () => {
  set = await prepareSet('manifold', { cache, rows: 2000, queries: 7, wordnet: undefined })
  attributes = await attributesOf(set, shares, undefined)
  cases = casesOf(set, attributes, { shares, kinds, relations })
  exact = await exactAnswers(set, attributes.path, cases)
})

function rowsOf({ filters }: FilterCase, query: number): Uint8Array {
  const filter = filters.length === 1 ? filters[0]! : filters[query]!
  return matchingRows(attributes.table, filter).isMatching
}

describe('the filters of the benchmark', () => {
  it('match exactly the intended number of points', () => {
    assert.equal(cases.length, shares.length * 8)
    for (const [at, { name, share }] of cases.entries()) {
      for (const count of exact[at]!.matching) assert.equal(count, Math.round(share! * set.count), name)
    }
  })

  it('match points near to or far from their queries, and negation matches the same points as union', () => {
    const { centres, numbers } = attributes.clusters
    const queries = readRows(set.queryPath, 0, set.queryCount, set.dimension)
    for (const relation of ['near', 'far'] as const) {
      const [union, negation] = cases.filter((each) => each.relation === relation && each.share === 0.1)
      for (let query = 0; query < set.queryCount; query += 1) {
        const rows = rowsOf(union!, query)
        assert.deepEqual(rowsOf(negation!, query), rows)
        const order = centresByDistance(queries, query, centres, set.dimension)
        const places = [...rows.keys()]
          .filter((row) => rows[row] === 1)
          .map((row) => order.indexOf(numbers[row]!))
        const outside = [...rows.keys()]
          .filter((row) => rows[row] === 0)
          .map((row) => order.indexOf(numbers[row]!))
        if (relation === 'near') assert.ok(Math.max(...places) <= Math.min(...outside))
        else assert.ok(Math.min(...places) >= Math.max(...outside))
      }
    }
  })

  it('are statistically independent of each other if they are independent of the vectors', () => {
    const independent = cases.filter((each) => each.relation === 'independent' && each.share === 0.1)
    assert.equal(independent.length, 4)
    const [range, equality, union] = independent.map((each) => rowsOf(each, 0))
    const common = (one: Uint8Array, other: Uint8Array): number =>
      one.reduce((sum, each, row) => sum + (each & other[row]!), 0)
    // A tenth of a tenth of 2,000 points is 20.
    for (const count of [common(range!, equality!), common(range!, union!), common(equality!, union!)]) {
      assert.ok(count > 5 && count < 40, String(count))
    }
  })
})

describe('the exact answers over matching points', () => {
  it('equal the result of sorting all distances', () => {
    const base = readRows(set.basePath, 0, set.count, set.dimension)
    const queries = readRows(set.queryPath, 0, set.queryCount, set.dimension)
    const far = (query: number, row: number): number => {
      let sum = 0
      for (let at = 0; at < set.dimension; at += 1) {
        sum += (queries[query * set.dimension + at]! - base[row * set.dimension + at]!) ** 2
      }
      return sum
    }
    for (const [at, each] of cases.entries()) {
      for (const query of [0, 3, 6]) {
        const rows = rowsOf(each, query)
        const order = [...rows.keys()]
          .filter((row) => rows[row] === 1)
          .sort((a, b) => far(query, a) - far(query, b))
        assert.deepEqual(exact[at]!.judge(query, order.slice(0, k), k), { recall: 1, isShort: false })
        assert.deepEqual(exact[at]!.judge(query, order.slice(1, k), k), { recall: 0.9, isShort: true })
        assert.equal(exact[at]!.judge(query, order.slice(-k), k).recall, 0)
        const others = [...rows.keys()].filter((row) => rows[row] === 0).slice(0, k)
        assert.deepEqual(exact[at]!.judge(query, others, k), { recall: 0, isShort: false })
      }
    }
  })

  it('are complete if fewer points match than were requested and all are found', () => {
    const at = cases.findIndex(({ share }) => share === 0.01)
    const all = [...rowsOf(cases[at]!, 0).entries()]
      .filter(([, isMatching]) => isMatching === 1)
      .map(([row]) => row)
    assert.equal(all.length, 20)
    assert.deepEqual(exact[at]!.judge(0, all, 100), { recall: 1, isShort: false })
    assert.deepEqual(exact[at]!.judge(0, all.slice(5), 100), { recall: 0.75, isShort: true })
    assert.throws(() => exact[at]!.judge(0, all, 129), /exact answers have only 128 entries/)
  })
})
