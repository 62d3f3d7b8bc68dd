import { parseArgs } from 'node:util'
import { type CampaignResult, campaign, replay } from './campaign.ts'

/**
 * The long form of the fuzz test: `npm run test:fuzz -- [--inputs n] [--seed n] [--only family:index]`. It ends with a
 * summary, or with exit code 1, the reduced input and the command that reproduces it.
 */
const { values } = parseArgs({
  options: {
    inputs: { type: 'string', default: '20000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
    only: { type: 'string' },
  },
})
const seed = Number(values.seed)
const inputs = Number(values.inputs)

try {
  if (values.only === undefined) await run()
  else await runOnly(values.only)
} catch (error) {
  console.error(error)
  process.exitCode = 1
}

async function run(): Promise<void> {
  console.log(`fuzz: seed ${seed}, ${inputs} inputs`)
  const started = performance.now()
  const onProgress = (done: number): void => console.log(`fuzz: ${done} inputs`)
  const result = await campaign({ seed, inputs, onProgress })
  for (const [family, answers] of result.answers) {
    const counts = [...answers].sort(([, a], [, b]) => b - a).map(([answer, count]) => `${answer}: ${count}`)
    console.log(`fuzz: ${family}: ${counts.join(', ')}`)
  }
  console.log(summary(result, Math.round((performance.now() - started) / 1000)))
}

function summary(result: CampaignResult, seconds: number): string {
  const mebibytes = (bytes: number): number => Math.round(bytes / 2 ** 20)
  return [
    `fuzz: seed ${seed}: ${result.inputs} inputs in ${seconds} s, every answer right, the process survived`,
    `${result.witnessed} valid requests answered meanwhile, the slowest two in ${Math.round(result.slowestWitnessMs)} ms`,
    `memory ${mebibytes(result.startBytes)} MiB, at most ${mebibytes(result.peakBytes)} MiB`,
    `${result.storedPoints} stored points unchanged, also after a restart`,
  ].join('; ')
}

async function runOnly(only: string): Promise<void> {
  const [family, index] = only.split(':')
  const fault = await replay(seed, family!, Number(index))
  console.log(fault ?? `fuzz: seed ${seed}, input ${only}: the answer is right`)
  process.exitCode = fault === undefined ? 0 : 1
}
