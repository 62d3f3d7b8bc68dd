import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { natsMissing } from '../support/nats-servers.ts'
import { runCampaign } from './campaign.ts'
import type { faults, faultsOfParts } from './faults.ts'

/** `npm run test:cluster` runs the others. */
const short: readonly (keyof typeof faults)[] = [
  'kill -9 of a node',
  "kill -9 of the log's leader",
  'SIGSTOP of a node',
  'kill -9 of everything',
]

const shortOfParts: readonly (keyof typeof faultsOfParts)[] = ['kill -9 of both ends of a move']

/** A minute each, so they run only on request. */
const withoutMutants = process.env.SLOW_MUTANTS !== '1' && 'npm run test:cluster-mutants runs it'

/** What the checker must report for each mutant of mutants.ts. */
const mutants = {
  'no barrier': /a (count|search) of latest .* did not find/,
  'acknowledged before the log': /did not find|has lost/,
  'no gap check': /did not find|differ in|has lost/,
}

describe('a cluster of three nodes and three log servers', { skip: natsMissing() }, () => {
  it('answers as a single copy would, whatever is killed or stopped', async (test) => {
    const { writes, reads } = await runCampaign(short, {
      seed: 1,
      report: (line) => test.diagnostic(line),
    })
    assert.ok(writes > 50 && reads > 50)
  })

  it('answers as a single copy would if each node has a part of the points and partitions move', async (test) => {
    const { writes, reads } = await runCampaign(shortOfParts, {
      seed: 3,
      nodes: 3,
      replicas: 2,
      report: (line) => test.diagnostic(line),
    })
    assert.ok(writes > 30 && reads > 30)
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

  it('is found to be wrong with a part that is skipped', { skip: withoutMutants }, async () => {
    const faulty = runCampaign(['kill -9 of a node'], {
      seed: 2,
      nodes: 3,
      replicas: 2,
      environment: { MUTANT: 'a part that is passed over' },
    })
    await assert.rejects(faulty, /did not find|differ in|has lost|has compared/)
  })
})
