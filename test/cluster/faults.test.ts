import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { natsMissing } from '../support/nats-servers.ts'
import { runCampaign } from './campaign.ts'
import type { faults } from './faults.ts'

/** The others come in `npm run test:cluster`. */
const short: readonly (keyof typeof faults)[] = [
  'kill -9 of a node',
  "kill -9 of the log's leader",
  'SIGSTOP of a node',
  'kill -9 of everything',
]

/** A minute each, so only when asked for. */
const withoutMutants = process.env.ALL_STEPS !== '1' && 'npm run test:cluster-mutants runs it'

/** What the checker has to say of nodes that are wrong on purpose, as in mutants.ts. */
const mutants = {
  'no barrier': /a read of latest .* did not find/,
  'acknowledged before the log': /did not find|has lost/,
  'no gap check': /did not find|differ in|has lost/,
}

describe('a cluster of three nodes and three log servers', { skip: natsMissing() }, () => {
  it('shows what one copy would have shown, whatever is killed or stopped', async (test) => {
    const { writes, reads } = await runCampaign(short, {
      seed: 1,
      report: (line) => test.diagnostic(line),
    })
    assert.ok(writes > 50 && reads > 50)
  })

  for (const [mutant, message] of Object.entries(mutants)) {
    it(`is found to be wrong with ${mutant}`, { skip: withoutMutants }, async () => {
      const faulty = runCampaign(['SIGSTOP of a node', 'kill -9 of everything'], {
        seed: 2,
        environment: { MUTANT: mutant },
      })
      await assert.rejects(faulty, message)
    })
  }
})
