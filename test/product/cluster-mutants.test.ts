import { describe, it } from 'node:test'
import { clusterMutants } from '../support/cluster-mutants.ts'
import { movingMutants } from '../support/moving-mutants.ts'
import { shardMutants } from '../support/shard-mutants.ts'
import { assertFoundOut } from '../support/simulate-cluster.ts'

const size = { replicas: 2, clients: 6, operations: 30 }

describe('a simulated cluster whose nodes each have all points', () => {
  for (const [name, mutant] of Object.entries(clusterMutants)) {
    it(`is caught when ${name}`, () => assertFoundOut(mutant, { nodes: 3, clients: 6, operations: 80 }))
  }
})

describe('a simulated cluster whose nodes each have a part of the points', () => {
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
