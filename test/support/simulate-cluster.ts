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

/**
 * Fails unless the check finds a mutant in one of up to 25 simulations. One in two or three does; threads make some of
 * the difference, so a seed alone does not decide it.
 */
export async function assertFoundOut(
  { foundBy, seed: first = 1, ...mutant }: Mutant,
  options: Omit<SimulationOptions, 'seed' | Exclude<keyof Mutant, 'foundBy'>>,
): Promise<void> {
  const outcomes: unknown[] = []
  for (let seed = first; seed < first + seedsMax; seed += 1) {
    const outcome: unknown = await simulateCluster({ ...options, ...mutant, seed }).catch(
      (error: unknown) => error,
    )
    if (outcome instanceof assert.AssertionError && foundBy.test(outcome.message)) return
    outcomes.push(outcome instanceof Error ? outcome.message : outcome)
  }
  assert.fail(`not found in ${seedsMax} simulations: ${JSON.stringify(outcomes)}`)
}

const seedsMax = 25
