import { parseArgs } from 'node:util'
import { compareGroups, comparePages } from './ranking-cases.ts'
import { compareWordSearches } from './word-cases.ts'

/** The long form of the tests of words: `npm run test:words -- [--kind searches|pages|groups] [--cases n] [--seed n]`. */
const { values } = parseArgs({
  options: {
    kind: { type: 'string', default: 'searches' },
    cases: { type: 'string', default: '10000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000_000) },
  },
})
const kinds = {
  searches: [compareWordSearches, 'all as a brute force finds them'],
  pages: [comparePages, 'no hit was repeated or lost'],
  groups: [compareGroups, 'all groups were complete'],
} as const
const kind = kinds[values.kind as keyof typeof kinds]
if (kind === undefined) throw new RangeError(`--kind is ${values.kind}, it must be searches, pages or groups`)
const [compare, outcome] = kind
const startMs = performance.now()
console.log(`words: ${values.cases} random ${values.kind}, seed ${values.seed}`)
await compare({ cases: Number(values.cases), seed: Number(values.seed) })
console.log(`${outcome}, in ${Math.round((performance.now() - startMs) / 1000)} s`)
