import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../../test/support/random.ts'
import type { Scalar } from '../../base/attributes.ts'
import { fromBytes, toBytes } from '../../base/plain-values.ts'
import { atOnce } from '../../base/turns.ts'
import type { FacetCount } from '../../points/database.ts'
import { mergeFacets, type NodeFacets } from './merged-answers.ts'

/** A node that has counted its points. */
class CountedNode {
  readonly #counts: ReadonlyMap<string, ReadonlyMap<Scalar, number>>

  constructor(counts: ReadonlyMap<string, ReadonlyMap<Scalar, number>>) {
    this.#counts = counts
  }

  /** Its most frequent values, as it sends them to another node. */
  facets(limit: number): NodeFacets {
    const facets = new Map([...this.#counts].map(([path, counts]) => [path, ranked(counts).slice(0, limit)]))
    const received = atOnce(fromBytes(atOnce(toBytes(facets)))) as NodeFacets
    assert.deepEqual(received, facets)
    return received
  }

  get(path: string): ReadonlyMap<Scalar, number> {
    return this.#counts.get(path) ?? new Map()
  }
}

function ranked(counts: ReadonlyMap<Scalar, number>): FacetCount[] {
  const all = [...counts].map(([value, count]) => ({ value, count }))
  return all.sort((one, other) => other.count - one.count || compare(one.value, other.value))
}

/** Texts by their bytes, then numbers. */
function compare(one: Scalar, other: Scalar): number {
  if (typeof one === 'number') return typeof other === 'number' ? one - other : 1
  return typeof other === 'number' ? -1 : Buffer.compare(Buffer.from(String(one)), Buffer.from(String(other)))
}

describe('facets of several nodes', () => {
  for (const { name, values, shape } of [
    { name: 'few values', values: 8, shape: 1 },
    { name: 'a few frequent values and many rare ones', values: 3000, shape: 4 },
    { name: 'many values of about the same frequency', values: 3000, shape: 1 },
  ]) {
    it(`are those of one node, with ${name}`, async () => {
      const random = seededRandom(values + shape)
      for (const limit of [1, 10, 200]) {
        const nodes = Array.from({ length: 3 }, () => {
          const counts = new Map<Scalar, number>()
          for (let point = 0; point < 4000; point += 1) {
            const number = Math.floor(values * random() ** shape)
            const value = number % 2 === 0 ? `value ${number}` : number
            counts.set(value, (counts.get(value) ?? 0) + 1)
          }
          return new CountedNode(new Map([['path', counts]]))
        })
        const total = new Map<Scalar, number>()
        for (const node of nodes)
          for (const [value, count] of node.get('path')) total.set(value, (total.get(value) ?? 0) + count)
        let merged: NodeFacets | undefined
        for (let asked = limit; merged === undefined; asked *= 2) {
          const answers = nodes.map((node) => node.facets(asked))
          merged = await mergeFacets(answers, ['path', 'path'], limit, asked)
        }
        assert.deepEqual([...merged], [['path', ranked(total).slice(0, limit)]])
      }
    })
  }

  it('are not known while a value could be frequent on nodes that have not named it', async () => {
    const node = (counts: Record<string, number>) =>
      new CountedNode(new Map([['path', new Map(Object.entries(counts))]]))
    const nodes = [node({ a: 5, x: 4, y: 4 }), node({ b: 5, x: 4, y: 4 })]
    const asked = async (limit: number) =>
      await mergeFacets(
        nodes.map((each) => each.facets(limit)),
        ['path'],
        1,
        limit,
      )
    assert.equal(await asked(1), undefined)
    assert.deepEqual(await asked(4), new Map([['path', [{ value: 'x', count: 8 }]]]))
  })
})
