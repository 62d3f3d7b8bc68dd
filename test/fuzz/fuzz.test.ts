import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { childThreads } from '../support/service.ts'
import { campaign, families } from './campaign.ts'
import { Dice } from './dice.ts'
import { bytesOf, shrunk } from './shrink.ts'

/** The short form; `npm run test:fuzz -- --inputs 100000` is the long one. Again with more threads, a shorter one. */
const seed = 20_261
const inputs = childThreads === '1' ? 1000 : 600

describe('the service under hostile input', () => {
  it(`answers all of it correctly, survives, and keeps its points, seed ${seed}`, {
    timeout: 600_000,
  }, async () => {
    const result = await campaign({ seed, inputs })
    assert.ok(result.inputs >= inputs)
    assert.ok(result.witnessed > 0)
    assert.ok(result.storedPoints > inputs / 10, 'some of the inputs were valid, and were stored')
  })
})

describe('the fuzz test', () => {
  it('makes the same input from the same seed, and a different one from a different seed', () => {
    const world = { dimension: 8, stored: ['00000000-0000-4000-8000-000000000000'] }
    for (const family of families) {
      const bytes = (number: number): string =>
        Buffer.concat(
          Array.from({ length: 20 }, (_, index) => family.make(new Dice(number + index), world)).flatMap(
            ({ parts }) => parts,
          ),
        ).toString('hex')
      assert.equal(bytes(1), bytes(1))
      assert.notEqual(bytes(1), bytes(1000))
    }
  })

  it('reduces a failing input to the parts that make it fail', async () => {
    const parts = bytesOf(Buffer.from('many bytes with an x and a y among them'))
    const fails = async (some: readonly Buffer[]): Promise<boolean> =>
      /x.*y/.test(Buffer.concat(some).toString())
    assert.equal(Buffer.concat(await shrunk(parts, fails, 1000)).toString(), 'xy')
  })
})
