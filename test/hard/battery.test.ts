import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { runSet, shortOptions } from './battery.ts'

/** The short form: `npm run test:recall -- --battery` has all sets, larger, and as many rounds as asked for. */
describe('a collection that is loaded, emptied, killed, filled again and stopped', {
  concurrency: true,
}, () => {
  for (const name of ['line', 'lattice', 'dominant-component']) {
    it(`keeps its recall and answers, with ${name}`, async () => {
      const { faults } = await runSet(name, shortOptions)
      assert.deepEqual(faults, [], `seed ${shortOptions.seed}`)
    })
  }
})
