/**
 * The long damage test: `npm run test:damage -- --flips 20000 --probes 500`; `--seed` repeats a run. collections.mdb is
 * truncated at every byte, or with `--step 16` at every 16th, and bits are flipped. Up to `--probes` damaged files that
 * pass the check before a start are opened. Then the files of the index are damaged `--index` times each and opened.
 */
import { parseArgs } from 'node:util'
import { seededRandom } from '../support/random.ts'
import { anywhere, type Damage, DamagedDirectories, flips, type Outcome, truncations } from './damage.ts'

const { values } = parseArgs({
  options: {
    flips: { type: 'string', default: '5000' },
    probes: { type: 'string', default: '200' },
    step: { type: 'string', default: '1' },
    index: { type: 'string', default: '200' },
    seed: { type: 'string' },
  },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
console.log(`seed ${seed}`)
const random = seededRandom(seed)
await using directories = await DamagedDirectories.create()
const size = directories.sizeOf('collections.mdb')

const cuts = truncations(size, Number(values.step))
const passed = directories.unnoticed(cuts)
console.log(`${cuts.length} truncations, ${cuts.length - passed.length} refused`)

const flipped = flips(size, Number(values.flips), random)
const borne = directories.unnoticed(flipped)
console.log(`${flipped.length} flipped bits, ${flipped.length - borne.length} refused`)

const opened = [...passed, ...borne].slice(0, Number(values.probes))
await open('collections.mdb', opened, ['refused', 'read refused', 'whole'])
for (const file of ['collections/0/index/attributes.bin', 'collections/0/index/graph-0-0.bin']) {
  await open(file, anywhere(directories.sizeOf(file), Number(values.index), random), ['whole'])
}

/** Opens the directory with each damage. */
async function open(file: string, damages: readonly Damage[], allowed: readonly Outcome[]): Promise<void> {
  const outcomes: Record<string, number> = {}
  for (const damage of damages) {
    const { outcome, detail } = await directories.damage(file, damage)
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
    if (allowed.includes(outcome)) continue
    process.exitCode = 1
    console.error(`FAILED: ${file}: ${JSON.stringify(damage)}: ${outcome}: ${detail}`)
  }
  console.log(`${file} with ${damages.length} damages, opened: ${JSON.stringify(outcomes)}`)
}
