import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { simulateCluster } from './support/simulate-cluster.ts'

const size = { nodes: 3, clients: 6, operations: 80 }
const timeoutMs = 30_000

describe('a simulated cluster', () => {
  for (const seed of [1, 2]) {
    it(`matches its log, whatever fails, seed ${seed}`, async (t) => {
      const summary = await simulateCluster({ ...size, seed, timeoutMs })
      t.diagnostic(JSON.stringify(summary))
      assert.ok(summary.answered! > 50 && summary.reads! > 30, 'much was answered')
    })
  }

  it('matches its log when the clocks of nodes are hours off', async (t) => {
    const summary = await simulateCluster({ ...size, seed: 3, timeoutMs, clocksOffUs: 5 * 3_600_000_000 })
    t.diagnostic(JSON.stringify(summary))
    assert.ok(summary.answered! > 50 && summary.reads! > 30, 'much was answered')
  })
})
