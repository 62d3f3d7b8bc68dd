import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { IdLists, IdTexts } from '../../base/id-lists.ts'
import { encodeIdLists, encodeIds } from './answers.ts'

const ids = Array.from({ length: 60_000 }, (_, index) => {
  return `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`
})

describe('JSON answers of ids', () => {
  it('equal the output of JSON.stringify for any number of ids', async () => {
    for (const count of [0, 1, 1023, 1024, 1025, 2048, 2049, 60_000]) {
      const some = ids.slice(0, count)
      for (const given of [new IdTexts(some), IdLists.of([some])]) {
        assert.equal(String(await encodeIds('point_ids', given)), JSON.stringify({ point_ids: some }))
      }
    }
  })

  it('equal the output of JSON.stringify for any lists', async () => {
    const lengths = fc.array(fc.oneof(fc.nat(3), fc.constantFrom(1023, 1024, 1025, 3000)), { maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(lengths, async (all) => {
        const lists = all.map((length) => ids.slice(0, length))
        const written = await encodeIdLists('results', IdLists.of(lists))
        assert.equal(String(written), JSON.stringify({ results: lists }))
      }),
    )
    const large = [ids, [], ids]
    const written = encodeIdLists('results', IdLists.of(large))
    assert.ok(written instanceof Promise)
    assert.equal(String(await written), JSON.stringify({ results: large }))
  })
})
