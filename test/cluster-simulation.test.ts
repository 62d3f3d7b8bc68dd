import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ClusterSimulation, type SimulationOptions } from './support/cluster-simulation.ts'

const size = { nodes: 3, clients: 6, operations: 60 }

async function simulate(
  options: Partial<SimulationOptions> & { readonly seed: number },
): Promise<ClusterSimulation['summary']> {
  await using simulation = new ClusterSimulation({ ...size, ...options })
  await simulation.run()
  await simulation.check()
  return simulation.summary
}

describe('a simulated cluster', () => {
  for (const seed of [1, 2, 3]) {
    it(`is what its log says, whatever fails, from seed ${seed}`, async (t) => {
      const { answered, reads, records } = await simulate({ seed })
      t.diagnostic(JSON.stringify({ answered, reads, records }))
      assert.ok(answered! > 50 && reads! > 30, 'much was answered')
    })
  }
})
