import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ClusterSimulation, type SimulationOptions } from './support/cluster-simulation.ts'
import { shardMutants } from './support/shard-mutants.ts'

const size = { nodes: 5, replicas: 2, clients: 6, operations: 30 }

async function simulate(
  options: Partial<SimulationOptions> & { readonly seed: number },
): Promise<ClusterSimulation['summary']> {
  await using simulation = new ClusterSimulation({ ...size, ...options })
  await simulation.run()
  await simulation.check()
  return simulation.summary
}

describe('a simulated cluster whose nodes have a part of the points each', () => {
  for (const [seed, options] of [
    [1, {}],
    [2, { nodes: 4, replicas: 3 }],
  ] as const) {
    it(`is what its log says, whatever fails, from seed ${seed}`, async (t) => {
      const summary = await simulate({ seed, ...options })
      t.diagnostic(JSON.stringify(summary))
      assert.ok(summary.answered! > 30 && summary.reads! > 30, 'much was answered')
    })
  }

  for (const [name, mutate] of Object.entries(shardMutants)) {
    it(`is found out when ${name}`, async () => {
      const outcomes: unknown[] = []
      for (let seed = 1; seed <= seedsMax && outcomes.length < seed; seed += 1) {
        const outcome: unknown = await simulate({ seed, mutate, nodes: 3, operations: 25 }).catch(
          (error: unknown) => error,
        )
        if (outcome instanceof assert.AssertionError) return
        outcomes.push(outcome)
      }
      assert.fail(`${seedsMax} simulations ended well: ${JSON.stringify(outcomes)}`)
    })
  }
})

/** Each mutant is found in most simulations. */
const seedsMax = 25
