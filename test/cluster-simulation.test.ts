import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { clusterMutants } from './support/cluster-mutants.ts'
import { ClusterSimulation, type SimulationOptions } from './support/cluster-simulation.ts'

const size = { nodes: 3, clients: 6, operations: 80 }

async function simulate(
  options: Partial<SimulationOptions> & { readonly seed: number },
): Promise<ClusterSimulation['summary']> {
  await using simulation = new ClusterSimulation({ ...size, ...options })
  await simulation.run()
  await simulation.check()
  return simulation.summary
}

describe('a simulated cluster', () => {
  for (const seed of [1, 2]) {
    it(`is what its log says, whatever fails, from seed ${seed}`, async (t) => {
      const summary = await simulate({ seed })
      t.diagnostic(JSON.stringify(summary))
      assert.ok(summary.answered! > 50 && summary.reads! > 30, 'much was answered')
    })
  }

  for (const [name, mutate] of Object.entries(clusterMutants)) {
    it(`is found out when ${name}`, async (t) => {
      const outcomes: unknown[] = []
      for (let seed = 1; seed <= seedsMax && outcomes.length < seed; seed += 1) {
        const outcome: unknown = await simulate({ seed, mutate }).catch((error: unknown) => error)
        if (outcome instanceof assert.AssertionError) return t.diagnostic(`by simulation ${seed}`)
        outcomes.push(outcome)
      }
      assert.fail(`${seedsMax} simulations ended well: ${JSON.stringify(outcomes)}`)
    })
  }
})

/** Each mutant is found in about every second simulation. */
const seedsMax = 25
