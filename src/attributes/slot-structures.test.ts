import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { ByteDictionary } from './byte-dictionary.ts'
import { ChangeJournal } from './change-journal.ts'
import { ListArena } from './list-arena.ts'
import { MemoryCount } from './memory-count.ts'
import { NumberTable } from './number-table.ts'
import { SlotColumn } from './slot-column.ts'
import { SlotGroup } from './slot-group.ts'
import { SlotSet } from './slot-words.ts'

const seed = 12
const random = seededRandom(seed)

function below(count: number): number {
  return Math.floor(random() * count)
}

/** Slot ranges that make a structure dense, sparse, or both, so that it takes each of its forms. */
const ranges = [
  [{ from: 0, count: 60 }],
  [
    { from: 65_500, count: 80 },
    { from: 0, count: 3 },
  ],
  [
    { from: 0, count: 12_000 },
    { from: 500_000, count: 12_000 },
  ],
  [{ from: 0, count: 8_000_000 }],
] as const

function slotOf(kind: number): number {
  const some = ranges[kind]!
  const { from, count } = some[below(some.length)]!
  return from + below(count)
}

/** Alternates between phases with more additions and phases with more removals. */
function isAddition(step: number): boolean {
  return below(10) < (Math.floor(step / 15_000) % 2 === 0 ? 8 : 2)
}

const ascending = (one: number, other: number): number => one - other

for (const kind of ranges.keys()) {
  describe(`slots of ranges ${JSON.stringify(ranges[kind])}, seed ${seed}`, () => {
    it('are in a group until they are removed', () => {
      const memory = new MemoryCount()
      const group = new SlotGroup(memory)
      const plain = new Set<number>()
      for (let step = 0; step < 60_000; step += 1) {
        const slot = slotOf(kind)
        if (isAddition(step)) {
          group.add(slot)
          plain.add(slot)
        } else {
          group.delete(slot)
          plain.delete(slot)
        }
        assert.equal(group.has(slot), plain.has(slot))
        if (step % 7500 !== 0) continue
        const words = new Uint32Array(8_000_000 / 32)
        group.orInto(words)
        const sorted = [...plain].sort(ascending)
        assert.deepEqual([...SlotSet.from(words)], sorted)
        assert.deepEqual([...group], sorted)
        assert.equal(group.count, plain.size)
      }
      for (const slot of plain) group.delete(slot)
      assert.equal(group.count, 0)
      group.release()
      assert.equal(memory.bytes, 0)
    })

    for (const [columnKind, largest] of [
      ['ordinals', 200],
      ['ordinals', 2 ** 32 - 2],
      ['numbers', 1000],
    ] as const) {
      it(`have ${columnKind} up to ${largest} in a column until they are removed`, () => {
        const memory = new MemoryCount()
        const column = new SlotColumn(memory, columnKind)
        const plain = new Map<number, number[]>()
        for (let step = 0; step < 40_000; step += 1) {
          const slot = slotOf(kind)
          if (plain.has(slot)) {
            column.delete(slot)
            plain.delete(slot)
          } else if (isAddition(step)) {
            const values = Array.from(
              { length: 1 + (below(20) === 0 ? below(4) : 0) },
              () => 1 + below(largest),
            )
            column.set(slot, values[0]!, values.slice(1))
            plain.set(slot, values)
          }
          const other = slotOf(kind)
          const [first = columnKind === 'numbers' ? Number.NaN : 0, ...further] = plain.get(other) ?? []
          assert.equal(column.get(other), first)
          assert.deepEqual(column.further(other) ?? [], further)
        }
        assert.equal(column.count, plain.size)
        const slots: number[] = []
        for (const _ of column.each((slot, number) => slots.push(number === column.get(slot) ? slot : -1)));
        assert.deepEqual(slots, [...plain.keys()].sort(ascending))
      })
    }
  })
}

describe(`structures of an index, seed ${seed}`, () => {
  it('a table returns the value set last', () => {
    const table = new NumberTable(new MemoryCount(), -1)
    const plain = new Map<number, number>()
    const keys = [0, 0.5, 1e300, -1e300, 5e-324, ...Array.from({ length: 3000 }, () => random() * 1000)]
    for (let step = 0; step < 50_000; step += 1) {
      const key = keys[below(keys.length)]!
      if (isAddition(step)) {
        table.set(key, step)
        plain.set(key, step)
      } else {
        table.delete(key)
        plain.delete(key)
      }
      const other = keys[below(keys.length)]!
      assert.equal(table.get(other), plain.get(other) ?? -1)
    }
    assert.equal(table.count, plain.size)
  })

  it('a dictionary finds its values, and reuses the ordinals of deleted values', () => {
    const dictionary = new ByteDictionary(new MemoryCount())
    const plain = new Map<string, number>()
    for (let step = 0; step < 120_000; step += 1) {
      const text = `${below(40_000)}`.repeat(below(50) === 0 ? 50 : 1)
      const ordinal = plain.get(text)
      assert.equal(dictionary.find(Buffer.from(text)), ordinal ?? -1)
      if (isAddition(step)) plain.set(text, dictionary.add(Buffer.from(text)))
      else if (ordinal !== undefined) {
        dictionary.delete(ordinal)
        plain.delete(text)
      }
    }
    assert.equal(dictionary.count, plain.size)
    assert.equal(new Set(plain.values()).size, plain.size)
    for (const [text, ordinal] of plain) assert.equal(Buffer.from(dictionary.read(ordinal)).toString(), text)
    assert.ok(dictionary.end <= 45_000, `${dictionary.end} ordinals`)
  })

  it('lists stay in ascending order whatever is inserted and removed', () => {
    const memory = new MemoryCount()
    const arena = new ListArena(memory)
    const lists = new Map<number, number>()
    const plain = new Map<number, Set<number>>()
    for (let step = 0; step < 40_000; step += 1) {
      const key = below(50)
      const value = below(100)
      const list = lists.get(key)
      const values = plain.get(key) ?? new Set()
      if (list === undefined) {
        lists.set(key, arena.create([value]))
        plain.set(key, new Set([value]))
      } else if (!values.has(value)) {
        lists.set(key, arena.insert(list, value))
        values.add(value)
      } else if (values.size > 1) {
        arena.remove(list, value)
        values.delete(value)
      } else {
        arena.free(list)
        lists.delete(key)
        plain.delete(key)
      }
    }
    for (const [key, list] of lists) {
      const found = Array.from({ length: arena.lengthOf(list) }, (_, rank) => arena.at(list, rank))
      assert.deepEqual(found, [...plain.get(key)!].sort(ascending))
    }
    assert.ok(memory.bytes <= 262_144, `${memory.bytes} bytes`)
  })

  it('a journal returns the slots touched since a position, until it overflows', () => {
    const journal = new ChangeJournal(4)
    for (const slot of [7, 8, 9]) journal.add(slot)
    assert.deepEqual(journal.since(0), [7, 8, 9])
    assert.deepEqual(journal.since(3), [])
    for (const slot of [10, 11]) journal.add(slot)
    assert.equal(journal.since(0), undefined)
    assert.deepEqual(journal.since(1), [8, 9, 10, 11])
    assert.equal(journal.position, 5)
  })
})

describe('a set of slots', () => {
  const setOf = (...slots: readonly number[]): SlotSet => {
    const set = new SlotSet(2000)
    for (const slot of slots) set.set(slot)
    return set
  }

  it('counts each slot once', () => {
    const set = setOf(0, 31, 32, 1999, 31)
    assert.equal(set.count, 4)
    set.clear(31)
    set.clear(31)
    assert.equal(set.count, 3)
    assert.deepEqual([...set], [0, 32, 1999])
    assert.equal(set.has(1999), true)
    assert.equal(set.has(100_000), false)
  })

  it('can be combined with others, including smaller ones', () => {
    const small = new SlotSet(10)
    small.set(3)
    const either = setOf(1, 1500)
    either.or(small)
    assert.deepEqual([...either], [1, 3, 1500])
    const both = setOf(3, 4, 1500)
    both.and(small)
    assert.deepEqual([...both], [3])
    const rest = setOf(3, 4, 1500)
    rest.andNot(small)
    assert.deepEqual([...rest], [4, 1500])
    const others = small.not(setOf(2, 3, 1500))
    assert.deepEqual([...others], [2, 1500])
    assert.deepEqual([either.count, both.count, rest.count, others.count], [3, 1, 2, 2])
  })
})
