/**
 * The fault test of clusters at any length: `npm run test:cluster -- --faults 100`; `--seed` runs one again.
 * `--only store` takes the faults with that in their names. `--mutant "no barrier"` makes the nodes wrong: then it has to fail.
 */
import { parseArgs } from 'node:util'
import { natsMissing } from '../support/nats-servers.ts'
import { seededRandom } from '../support/random.ts'
import { runCampaign } from './campaign.ts'
import { faults } from './faults.ts'
import { type Interruption, tableOf } from './interruptions.ts'

const { values } = parseArgs({
  options: {
    faults: { type: 'string' },
    seed: { type: 'string' },
    mutant: { type: 'string' },
    only: { type: 'string' },
  },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const count = Number(values.faults ?? 20)
if (Number.isNaN(seed + count)) throw new Error('--faults and --seed take numbers')
const missing = natsMissing()
if (missing !== false) throw new Error(missing)

const random = seededRandom(seed)
const names = Object.keys(faults).filter((name) => values.only === undefined || name.includes(values.only))
const chosen = Array.from({ length: count }, () => names[Math.floor(random() * names.length)]!)
console.log(`seed ${seed}, ${count} faults`)
const environment = values.mutant === undefined ? {} : { MUTANT: values.mutant }
const report = (line: string): void => console.log(`  ${line}`)
const interruptions: Interruption[] = []
const onFault = (each: Interruption): void => void interruptions.push(each)
try {
  const { writes, reads } = await runCampaign(chosen, { seed, report, onFault, environment })
  console.log(`${count} faults: ${writes} acknowledged inserts, ${reads} reads, nothing lost, nothing stale`)
} catch (error) {
  const again = process.argv.slice(2).join(' ')
  console.log(
    `after ${interruptions.length} faults; once more: npm run test:cluster -- ${again} --seed ${seed}`,
  )
  throw error
} finally {
  console.log(tableOf(interruptions))
}
