import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { below } from '../../test/support/searched-points.ts'
import { AttributeIndex } from '../attributes/attribute-index.ts'
import { idBytes, idFromBytes, newId } from '../base/ids.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import { type SampledPoints, samplePoints } from './point-sample.ts'
import { PointTable } from './point-table.ts'

const seed = 20_261_125
/** Drawn in several steps. */
const slotCount = 5000
const vector = Float32Array.of(1)
const filter = below('lot', 1)

/** Points without vectors and without a disk. Empty slots can be used again at once. */
class Points {
  readonly table = new PointTable(slotCount)
  readonly attributes = new AttributeIndex({
    findSlot: (bytes, at) => this.table.findBytes(bytes, at),
    copyId: (slot, target, at) => this.table.copyId(slot, target, at),
  })
  /** Ids of the points that have matched since the set was cleared. */
  readonly matched = new Set<string>()
  readonly #sequences = new Map<number, number>()
  #sequence = 0

  constructor() {
    const live = this.#sequences
    const index: Partial<VectorIndex> = {
      slotCount,
      isLive: (slot) => live.has(slot),
      sequenceOf: (slot) => live.get(slot) ?? 0,
      place: (slot, _, sequence) => void live.set(slot, sequence),
      remove: (slot) => void live.delete(slot),
      replace: (from, slot, _, sequence) => {
        live.delete(from)
        live.set(slot, sequence)
      },
    }
    Object.defineProperty(index, 'liveCount', { get: () => live.size })
    this.table.index = index as VectorIndex
  }

  insert(slot: number, lot: number): string {
    const id = newId()
    this.#sequence += 1
    this.table.place(slot, id, vector, this.#sequence, this.#sequence)
    this.patch(slot, lot)
    return id
  }

  patch(slot: number, lot: number): void {
    this.#sequence += 1
    const attributes = new Map([['lot', lot]])
    const payload = { contentType: 'Text', content: '', attributes } as const
    this.attributes.set(slot, { payload, version: this.#sequence })
    if (lot < 1) this.matched.add(this.table.ids.idOf(slot))
  }

  move(from: number, to: number): void {
    const isMatch = this.attributes.matches(filter, from)
    this.#sequence += 1
    this.attributes.delete(from)
    this.table.move(from, to, vector, this.#sequence)
    this.patch(to, isMatch ? 0 : 1)
  }

  remove(slot: number): void {
    this.table.hide(slot)
    this.attributes.delete(slot)
    this.table.remove(slot)
  }
}

/** Samples points, and calls `change` after each step. */
function sampled(
  points: Points,
  query: Parameters<typeof samplePoints>[1],
  change: (step: number) => void,
): SampledPoints {
  const work = samplePoints(points, query)
  for (let step = 0; ; step += 1) {
    const { done, value } = work.next()
    if (done) return value
    change(step)
  }
}

function idsOf({ ids, slots, sequences, set }: SampledPoints): string[] {
  assert.deepEqual([...slots], [...set])
  assert.deepEqual([sequences.length, ids.length], [set.count, set.count * idBytes])
  return [...slots.keys()].map((number) => idFromBytes(ids, number * idBytes))
}

describe('a sample of points that change meanwhile', () => {
  const all = { limit: slotCount, seed: 1 }
  /** More than any sample here takes. */
  const steps = 12

  it('has a point that moves only once, also if it moves into the slot of a drawn point', () => {
    const last = slotCount - 1
    for (let at = 0; at < 2 * steps; at += 1) {
      const points = new Points()
      for (let slot = 0; slot < last; slot += 1) points.insert(slot, 0)
      const to = last - (at % 2)
      const ids = idsOf(
        sampled(points, all, (step) => {
          if (step !== at >> 1) return
          if (to !== last) points.remove(to)
          points.move(5, to)
        }),
      )
      assert.equal(new Set(ids).size, ids.length, `moved to ${to} after step ${at >> 1}`)
      assert.ok(ids.length >= slotCount - 3)
    }
  })

  it('has no point that came into the slot of a matching one and does not match', () => {
    for (let at = 0; at < steps; at += 1) {
      const points = new Points()
      for (let slot = 0; slot < slotCount; slot += 1) points.insert(slot, slot % 2)
      let foreign = ''
      const ids = idsOf(
        sampled(points, { ...all, filter }, (step) => {
          if (step !== at) return
          points.remove(4000)
          foreign = points.insert(4000, 1)
        }),
      )
      assert.ok(!ids.includes(foreign), `came after step ${at}`)
      assert.ok(ids.length >= slotCount / 2 - 1)
    }
  })

  it(`has each point once, and only matching ones, whatever changes, seed ${seed}`, () => {
    const random = seededRandom(seed)
    const points = new Points()
    for (let slot = 0; slot < slotCount * 0.9; slot += 1) points.insert(slot, Math.round(random()))
    for (let round = 0; round < 40; round += 1) {
      points.matched.clear()
      const untouched = new Set<string>()
      for (let slot = 0; slot < slotCount; slot += 1) {
        if (!points.attributes.matches(filter, slot)) continue
        points.matched.add(points.table.ids.idOf(slot))
        untouched.add(points.table.ids.idOf(slot))
      }
      const sample = sampled(points, { ...all, filter }, () => {
        for (let changes = 0; changes < 200; changes += 1) {
          const slot = Math.floor(random() * slotCount)
          const to = Math.floor(random() * slotCount)
          const choice = random()
          if (!points.table.isVisible(slot)) {
            points.insert(slot, Math.round(random()))
            continue
          }
          untouched.delete(points.table.ids.idOf(slot))
          if (choice < 0.2) points.remove(slot)
          else if (choice < 0.5) points.patch(slot, Math.round(random()))
          else if (!points.table.isVisible(to)) points.move(slot, to)
        }
      })
      const ids = idsOf(sample)
      const unique = new Set(ids)
      assert.equal(unique.size, ids.length, `round ${round}`)
      for (const id of ids) assert.ok(points.matched.has(id), `${id} never matched, round ${round}`)
      for (const id of untouched) assert.ok(unique.has(id), `${id} is missing, round ${round}`)
    }
  })
})
