import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { IdLists, IdTexts } from './id-lists.ts'
import { idBytes, idLength, idToBytes } from './ids.ts'
import { newId } from './partitions.ts'

describe('IdLists', () => {
  it('return the lists that they were made of', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.uuid(), { maxLength: 5 }), { maxLength: 6 }), (lists) => {
        const packed = IdLists.of(lists)
        assert.deepEqual(packed.strings(), lists)
        assert.equal(packed.length, lists.length)
        assert.equal(packed.total, lists.flat().length)
        assert.deepEqual(
          lists.map((_, list) => packed.lengthOf(list)),
          lists.map(({ length }) => length),
        )
      }),
    )
  })

  it('number the ids of all lists, also between empty ones', () => {
    const ids = Array.from({ length: 5 }, newId)
    const packed = IdLists.of([[], ids.slice(0, 2), [], ids.slice(2), []])
    assert.deepEqual(
      [0, 1, 2, 3, 4].map((list) => [packed.startOf(list), packed.endOf(list)]),
      [
        [0, 0],
        [0, 2],
        [2, 2],
        [2, 5],
        [5, 5],
      ],
    )
    assert.deepEqual(spelled(packed), ids)
  })

  it('ignore bytes after the last id', () => {
    const ids = Array.from({ length: 3 }, newId)
    const bytes = Buffer.concat([...ids.map(idToBytes), Buffer.alloc(idBytes)])
    const packed = new IdLists(bytes, [1, 3])
    assert.equal(packed.total, 3)
    assert.deepEqual(packed.strings(), [[ids[0]], ids.slice(1)])
  })
})

describe('IdTexts', () => {
  it('spell the given ids', () => {
    const ids = Array.from({ length: 4 }, newId)
    assert.deepEqual(spelled(new IdTexts(ids)), ids)
  })
})

function spelled(ids: IdLists | IdTexts): string[] {
  const target = Buffer.alloc(idLength)
  return Array.from({ length: ids.total }, (_, number) => {
    ids.spell(number, target, 0)
    return target.toString()
  })
}
