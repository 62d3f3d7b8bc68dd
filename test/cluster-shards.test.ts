import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { simulateCluster } from './support/simulate-cluster.ts'

const size = { nodes: 5, replicas: 2, clients: 6, operations: 30, timeoutMs: 30_000 }

describe('a simulated cluster whose nodes each have a part of the points', () => {
  for (const [seed, options] of [
    [1, {}],
    [2, { nodes: 4, replicas: 3 }],
    [3, { nodes: 2, joining: 2 }],
    [4, { nodes: 3, replicas: 1, joining: 1 }],
  ] as const) {
    it(`matches its log, whatever fails, seed ${seed}`, async (t) => {
      const summary = await simulateCluster({ ...size, seed, ...options })
      t.diagnostic(JSON.stringify(summary))
      assert.ok(summary.answered! > 30 && summary.reads! > 30, 'much was answered')
    })
  }
})
