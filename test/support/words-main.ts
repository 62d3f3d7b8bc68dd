import { parseArgs } from 'node:util'
import { compareWordSearches } from './word-cases.ts'

/** The long form of the test of words: `npm run test:words -- [--cases n] [--seed n]`. */
const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: '10000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
  },
})
const started = Date.now()
console.log(`words: ${values.cases} random searches, seed ${values.seed}`)
await compareWordSearches({ cases: Number(values.cases), seed: Number(values.seed) })
console.log(`all as a brute force finds them, in ${Math.round((Date.now() - started) / 1000)} s`)
