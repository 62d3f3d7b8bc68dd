import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { idBytes, idFromBytes, idToBytes } from '../base/ids.ts'
import { newId } from '../base/partitions.ts'
import { IdTable, IdTableView } from './id-table.ts'

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

  it('is known to a view that hears of its memory, from any time on', () => {
    for (const known of [1, 3000, 20_000]) {
      const table = new IdTable()
      const ids = Array.from({ length: 70_000 }, newId)
      const setTo = (from: number, to: number): void => {
        for (let slot = from; slot < to; slot += 1) table.set(slot, idToBytes(ids[slot]!))
      }
      setTo(0, known)
      const view = new IdTableView([], table.entries)
      table.onPage((page) => view.addPage(page))
      table.onEntries((entries, partition) => view.setEntries(entries, partition))
      setTo(known, ids.length)
      table.delete(7)
      const copied = Buffer.alloc(idBytes)
      for (const [slot, id] of ids.entries()) {
        assert.equal(view.find(id), slot === 7 ? -1 : slot)
        assert.ok(view.copyId(slot, copied, 0))
        assert.equal(idFromBytes(copied, 0), id)
      }
      assert.equal(view.find(newId()), -1)
    }
  })

  it('agrees with a Map through any run of sets and deletes', () => {
    // Ids that differ in few bits share a partition and probe runs, which random ids rarely do.
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

  it('probes few entries, whatever the ids', () => {
    const count = 100_000
    const byIndex: Readonly<Record<string, (index: number) => Uint8Array>> = {
      'version 7, a thousand a millisecond': (index) => {
        const id = Buffer.alloc(idBytes)
        id.writeUIntBE(1_790_000_000_000 + Math.floor(index / 1000), 0, 6)
        id.writeUInt16BE(0x7000 | (index % 1000), 6)
        id[8] = 0x80
        return id
      },
      'one prefix of twelve bytes': (index) => {
        const id = Buffer.alloc(idBytes, 0xab)
        id.writeUInt32BE(index, 12)
        return id
      },
      'only the first bytes differ': (index) => {
        const id = Buffer.alloc(idBytes)
        id.writeUInt32LE(index, 0)
        return id
      },
      // These ids collided in all five bytes from which an earlier, unkeyed hash of this table was computed.
      'equal in the first five bytes': (index) => {
        const id = Buffer.alloc(idBytes, 7)
        id.writeUInt32LE(Math.imul(index, 0x9e3779b1) >>> 0, 7)
        return id
      },
    }
    for (const [ids, idAt] of Object.entries(byIndex)) {
      const table = new IdTable()
      for (let index = 0; index < count; index += 1) table.set(index, idAt(index))

      // At a load of 0.7, runs of random hashes are seldom longer than 100.
      const longest = Math.max(...table.entries.map((entries) => longestRunIn(new Uint32Array(entries))))
      assert.ok(longest < 1000, `${ids}: a lookup probes up to ${longest} entries`)
      assert.equal(table.findBytes(idAt(count - 1), 0), count - 1)
      assert.equal(table.findBytes(idAt(count), 0), -1)
    }
  })
})

/** Returns the longest run of entries that a lookup may have to pass. */
function longestRunIn(entries: Uint32Array): number {
  let longest = 0
  let run = 0
  // Goes round twice, because a run can wrap around the end.
  for (let at = 0; at < 2 * entries.length && run < entries.length; at += 1) {
    run = entries[at % entries.length] === 0 ? 0 : run + 1
    longest = Math.max(longest, run)
  }
  return longest
}
