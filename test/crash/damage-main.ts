/**
 * Damage to points.mdb at any length: `npm run test:damage -- --flips 20000 --probes 500`; `--seed` runs one again.
 * The file is cut off at every byte, or with `--step 16` at every 16th; of the flips that the check before a start lets pass, as many as `--probes` are opened.
 */
import { parseArgs } from 'node:util'
import { seededRandom } from '../support/random.ts'
import { DamagedDirectories, flips, truncations } from './damage.ts'

const { values } = parseArgs({
  options: {
    flips: { type: 'string', default: '5000' },
    probes: { type: 'string', default: '200' },
    step: { type: 'string', default: '1' },
    seed: { type: 'string' },
  },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
console.log(`seed ${seed}`)
const random = seededRandom(seed)
await using directories = await DamagedDirectories.create()
const size = directories.sizeOf('points.mdb')

const cuts = truncations(size, Number(values.step))
const passed = directories.unnoticed(cuts)
console.log(`${cuts.length} truncations, ${cuts.length - passed.length} refused`)

const flipped = flips(size, Number(values.flips), random)
const borne = directories.unnoticed(flipped)
console.log(`${flipped.length} flipped bits, ${flipped.length - borne.length} refused`)

const outcomes: Record<string, number> = {}
let failed = 0
for (const damage of [...passed, ...borne].slice(0, Number(values.probes))) {
  const { outcome, detail } = await directories.damage('points.mdb', damage)
  outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
  if (outcome !== 'WRONG' && outcome !== 'crashed') continue
  failed += 1
  console.error(`FAILED: ${JSON.stringify(damage)}: ${outcome}: ${detail}`)
}
console.log(`of the others, opened: ${JSON.stringify(outcomes)}`)
process.exitCode = failed === 0 ? 0 : 1
