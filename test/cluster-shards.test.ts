import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { clusterMutants } from './support/cluster-mutants.ts'
import { movingMutants } from './support/moving-mutants.ts'
import { shardMutants } from './support/shard-mutants.ts'
import { assertFoundOut, simulateCluster } from './support/simulate-cluster.ts'

const size = { nodes: 5, replicas: 2, clients: 6, operations: 30 }

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

  it('is caught when an insert is acknowledged before it is in the log', () => {
    const mutant = clusterMutants['an insert is acknowledged before it is in the log']!
    return assertFoundOut(mutant, { ...size, nodes: 3 })
  })

  for (const [name, mutant] of Object.entries(shardMutants)) {
    it(`is caught when ${name}`, () => assertFoundOut(mutant, { ...size, nodes: 3, operations: 25 }))
  }

  for (const [name, mutant] of Object.entries(movingMutants)) {
    it(`is caught when ${name}`, () => assertFoundOut(mutant, { ...size, nodes: 2, joining: 2 }))
  }
})
