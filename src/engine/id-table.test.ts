import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { idBytes, idFromBytes, idToBytes, newId } from '../base/ids.ts'
import { IdTable } from './id-table.ts'

describe('IdTable', () => {
  it('finds every id that was set, in either case, and none that was not', () => {
    const table = new IdTable()
    const ids = Array.from({ length: 70_000 }, newId)
    for (const [slot, id] of ids.entries()) table.set(slot, idToBytes(id))

    assert.equal(table.size, ids.length)
    const copied = Buffer.alloc(2 * idBytes)
    for (const [slot, id] of ids.entries()) {
      assert.equal(table.find(id), slot)
      table.copyId(slot, copied, 5)
      assert.equal(idFromBytes(copied, 5), id)
    }
    assert.deepEqual([copied[4], copied[5 + idBytes]], [0, 0], 'an id is 16 bytes and no more')
    assert.equal(table.find(ids[123]!.toUpperCase()), 123)
    assert.equal(table.find(newId()), -1)
  })

  it('agrees with a Map through any run of sets and deletes', () => {
    // Ids that differ in few bits share a partition and probe runs, which random ids hardly ever do.
    const crowdedId = fc
      .integer({ min: 0, max: 63 })
      .map(
        (n) =>
          `00${(n % 4).toString(16).padStart(2, '0')}0000-0000-4000-8000-0000000000${n.toString(16).padStart(2, '0')}`,
      )
    const step = fc.record({ id: crowdedId, remove: fc.boolean() })

    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const table = new IdTable()
        const model = new Map<string, number>()
        let nextSlot = 0
        for (const { id, remove } of steps) {
          const slot = model.get(id)
          if (remove && slot !== undefined) {
            table.delete(slot)
            model.delete(id)
          } else if (!remove && slot === undefined) {
            table.set(nextSlot, idToBytes(id))
            model.set(id, nextSlot)
            nextSlot += 1
          }
          assert.equal(table.find(id), model.get(id) ?? -1)
        }
        for (const [id, slot] of model) assert.equal(table.find(id), slot)
        assert.equal(table.size, model.size)
      }),
    )
  })
})
