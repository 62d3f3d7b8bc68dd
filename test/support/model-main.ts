import { parseArgs } from 'node:util'
import { checkAgainstModel } from './model-check.ts'
import { openIndexSubject, subjectNames, subjects } from './model-subjects.ts'

/**
 * The long form of the model test: `npm run test:model -- [--seconds n] [--seed n] [--operations n]
 * [--through name]`. Until the time is over, it runs rounds of random length, each over a new database, and takes the
 * interfaces in turn. A failure ends it with exit code 1 and prints the command that reproduces it.
 */
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    operations: { type: 'string', default: '2000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
    through: { type: 'string' },
  },
})
const ways = [...subjectNames, 'index'] as const
const names = ways.filter((name) => values.through === undefined || values.through === name)
if (names.length === 0) throw new Error(`--through is one of ${ways.join(', ')}`)
const operations = Number(values.operations)
const started = Date.now()
const end = started + Number(values.seconds) * 1000
const total = { operations: 0, restarts: 0, comparisons: 0, rounds: 0 }
console.log(`model test: seed ${values.seed}, ${values.seconds} s, through ${names.join(', ')}`)

for (let seed = Number(values.seed); total.rounds === 0 || Date.now() < end; seed += 1) {
  const name = names[total.rounds % names.length]!
  try {
    await using subject = name === 'index' ? await openIndexSubject() : await subjects[name]()
    // From a few points, where most answers contain all of them, to sizes where most answers are limited.
    const size = [10, 100, 1000][seed % 3]!
    const graphs = { size: 2000, firstPoints: 1800, leastRecall: 0.95 }
    const sizes = name === 'index' ? graphs : { size }
    const result = await checkAgainstModel(subject, { seed, ...sizes, until: { operations } })
    total.operations += result.operations
    total.restarts += result.restarts
    total.comparisons += result.comparisons
    total.rounds += 1
    if (name === 'index') console.log(`  seed ${seed} through the index: recall ${result.recall.toFixed(4)}`)
  } catch (error) {
    console.error(error)
    console.error(
      `again: npm run test:model -- --seconds 0 --seed ${seed} --through '${name}' --operations ${operations}`,
    )
    process.exit(1)
  }
}
console.log(
  `model test: ${total.operations} operations in ${total.rounds} rounds with ${total.restarts} restarts, ${total.comparisons} answers compared, none different, ${Math.round((Date.now() - started) / 1000)} s`,
)
