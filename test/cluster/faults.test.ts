import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { natsMissing } from '../support/nats-servers.ts'
import { faults, runCampaign } from './campaign.ts'

describe('a cluster of three nodes and three log servers', { skip: natsMissing() }, () => {
  it('shows what one copy would have shown, whatever is killed or stopped', async (test) => {
    const { writes, reads } = await runCampaign(Object.keys(faults), {
      seed: 1,
      report: (line) => test.diagnostic(line),
    })
    assert.ok(writes > 50 && reads > 50)
  })
})
