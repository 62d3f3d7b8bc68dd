/** The fault test of clusters at any length: `npm run test:cluster -- --faults 100`; `--seed` runs one again. */
import { parseArgs } from 'node:util'
import { natsMissing } from '../support/nats-servers.ts'
import { seededRandom } from '../support/random.ts'
import { faults, runCampaign } from './campaign.ts'

const { values } = parseArgs({ options: { faults: { type: 'string' }, seed: { type: 'string' } } })
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const count = Number(values.faults ?? 20)
if (Number.isNaN(seed + count)) throw new Error('--faults and --seed take numbers')
const missing = natsMissing()
if (missing !== false) throw new Error(missing)

const random = seededRandom(seed)
const names = Object.keys(faults)
const chosen = Array.from({ length: count }, () => names[Math.floor(random() * names.length)]!)
console.log(`seed ${seed}, ${count} faults`)
const { writes, reads } = await runCampaign(chosen, { seed, report: (line) => console.log(`  ${line}`) })
console.log(`${count} faults: ${writes} acknowledged inserts, ${reads} reads, nothing lost, nothing stale`)
