import assert from 'node:assert/strict'
import { ClusterSimulation, type SimulationOptions } from './cluster-simulation.ts'

/** Runs one simulation and checks it. */
export async function simulateCluster(options: SimulationOptions): Promise<ClusterSimulation['summary']> {
  await using simulation = new ClusterSimulation(options)
  await simulation.run()
  await simulation.check()
  return simulation.summary
}

/** Fails unless what is wrong on purpose is found in one of many simulations: about every second one finds it. */
export async function assertFoundOut(options: Omit<SimulationOptions, 'seed'>): Promise<void> {
  const outcomes: unknown[] = []
  for (let seed = 1; seed <= seedsMax && outcomes.length < seed; seed += 1) {
    const outcome: unknown = await simulateCluster({ ...options, seed }).catch((error: unknown) => error)
    if (outcome instanceof assert.AssertionError) return
    outcomes.push(outcome)
  }
  assert.fail(`${seedsMax} simulations ended well: ${JSON.stringify(outcomes)}`)
}

const seedsMax = 25
