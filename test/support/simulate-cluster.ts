import assert from 'node:assert/strict'
import type { Mutant } from './cluster-mutants.ts'
import { ClusterSimulation, type SimulationOptions } from './cluster-simulation.ts'

/** Runs one simulation and checks it. */
export async function simulateCluster(options: SimulationOptions): Promise<ClusterSimulation['summary']> {
  await using simulation = new ClusterSimulation(options)
  await simulation.run()
  await simulation.check()
  return simulation.summary
}

/** Fails unless the check finds a mutant in one of up to 25 simulations. One in two or three does. */
export async function assertFoundOut(
  { foundBy, mutate, changesByFilter }: Mutant,
  options: Omit<SimulationOptions, 'seed' | 'mutate' | 'changesByFilter'>,
): Promise<void> {
  const outcomes: unknown[] = []
  for (let seed = 1; seed <= seedsMax; seed += 1) {
    const outcome: unknown = await simulateCluster({ ...options, mutate, changesByFilter, seed }).catch(
      (error: unknown) => error,
    )
    if (outcome instanceof assert.AssertionError && foundBy.test(outcome.message)) return
    outcomes.push(outcome instanceof Error ? outcome.message : outcome)
  }
  assert.fail(`not found in ${seedsMax} simulations: ${JSON.stringify(outcomes)}`)
}

const seedsMax = 25
