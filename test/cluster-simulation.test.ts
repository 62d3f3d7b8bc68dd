import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { simulateCluster } from './support/simulate-cluster.ts'

const size = { nodes: 3, clients: 6, operations: 80 }
const timeoutMs = 30_000

describe('a simulated cluster', () => {
  for (const { seed, clocks, clocksOffUs } of [
    { seed: 1, clocks: 'a second off', clocksOffUs: undefined },
    { seed: 2, clocks: 'a second off', clocksOffUs: undefined },
    { seed: 3, clocks: 'hours off', clocksOffUs: 5 * 3_600_000_000 },
  ]) {
    it(`matches its log, whatever fails, with clocks ${clocks}, seed ${seed}`, async (t) => {
      const summary = await simulateCluster({ ...size, seed, timeoutMs, clocksOffUs })
      t.diagnostic(JSON.stringify(summary))
      assert.ok(summary.answered! > 50 && summary.reads! > 30, 'much was answered')
    })
  }
})
