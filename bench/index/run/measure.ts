import type { GroundTruth } from '../../shared/data/ground-truth.ts'
import type { ContenderClient } from './contender-client.ts'
import { type Sample, settingsFor } from './speed-at-recall.ts'

export const recallTargets = [0.9, 0.95, 0.99, 0.999] as const

/** The values of ef, from the smallest that can hold k results, in steps of at most a quarter. */
const efs: readonly number[] = [
  10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512,
  640, 768, 1024,
]

export interface MeasureOptions {
  readonly k: number
  readonly threads: number
  readonly minSeconds: number
}

export interface Measured extends Sample {
  readonly coresUsed: number
}

export async function measure(
  client: ContenderClient,
  truth: GroundTruth,
  ef: number,
  { k, threads, minSeconds }: MeasureOptions,
): Promise<Measured> {
  const { ids, queriesPerSecond, coresUsed } = await client.ask({
    kind: 'search',
    k,
    ef,
    threads,
    minSeconds,
  })
  return { ef, recall: truth.recall(ids, k), queriesPerSecond, coresUsed }
}

/** One quick pass from the smallest ef upwards, until recall is almost 1. */
export async function sweep(
  client: ContenderClient,
  truth: GroundTruth,
  options: MeasureOptions,
): Promise<Measured[]> {
  const samples: Measured[] = []
  for (const ef of efs.filter((each) => each >= options.k)) {
    const sample = await measure(client, truth, ef, { ...options, minSeconds: 0 })
    samples.push(sample)
    if (sample.recall >= 0.9995) break
  }
  return samples
}

/** The settings just below and above each target, which the rounds measure. */
export function settingsAroundTargets(samples: readonly Sample[]): number[] {
  return settingsFor(samples, recallTargets)
}
