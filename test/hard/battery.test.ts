import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { runSet, shortOptions } from './battery.ts'

/** The short form; `npm run test:recall -- --battery` runs all sets, larger, with any number of rounds. */
describe('a collection that is loaded, emptied, killed, filled again and stopped', {
  concurrency: true,
}, () => {
  for (const name of ['line', 'lattice', 'dominant-component']) {
    it(`keeps its recall and answers every call, with ${name}`, async () => {
      const { faults } = await runSet(name, shortOptions)
      assert.deepEqual(faults, [], `seed ${shortOptions.seed}`)
    })
  }
})
