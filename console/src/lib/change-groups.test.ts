import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { changeGroups } from './change-groups.ts'

describe('a change of many points', () => {
  it('goes on until no more points match', async () => {
    const groups = [
      { changed: 5, more: true },
      { changed: 2, more: false },
    ]
    const reported: number[] = []
    const result = await changeGroups(
      async () => groups.shift()!,
      (changed) => reported.push(changed),
      () => false,
    )
    assert.deepEqual(result, { changed: 7, more: false })
    assert.deepEqual(reported, [5, 7])
  })

  it('ends when a group changes nothing, so that it never runs forever', async () => {
    const result = await changeGroups(
      async () => ({ changed: 0, more: true }),
      () => undefined,
      () => false,
    )
    assert.deepEqual(result, { changed: 0, more: false })
  })

  it('stops after the request in flight, and counts its points', async () => {
    let requests = 0
    const result = await changeGroups(
      async () => {
        requests++
        return { changed: 5, more: true }
      },
      () => undefined,
      () => requests === 2,
    )
    assert.equal(requests, 2)
    assert.deepEqual(result, { changed: 10, more: true })
  })
})
