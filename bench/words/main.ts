/**
 * `npm run bench:words` compares the search of words with other engines: speed on a file of texts, relevance on judged
 * collections. All run on one thread, and processor time is counted, so that a busy machine disturbs less.
 */
import { basename } from 'node:path'
import { installPackages } from '../shared/install-packages.ts'
import { describeMachine } from '../shared/machine.ts'
import { median } from '../shared/median.ts'
import { shown, table } from '../shared/table.ts'
import { type Contender, makeContender } from './contenders.ts'
import { compareHybrid } from './hybrid.ts'
import { type Options, readOptions, usage } from './options.ts'
import { depth, meanNdcg, readJudged } from './relevance.ts'
import { makeQueries, type QueryKind, queryKinds, readTexts } from './texts.ts'

/** The hits of each query when speed is measured. */
const hits = 10

/** Queries of the first round. */
const warmUpQueries = 20

/** A round of a contender and a kind takes at most about this long. */
const roundSeconds = 2

const options = readOptions(process.argv.slice(2))
if (options === 'help') console.log(usage)
else await run(options)

async function run(options: Options): Promise<void> {
  installPackages(import.meta.dirname, 'Installing the libraries under test')
  describeMachine()
  if (options.texts !== undefined) console.log(`\n${await compareSpeed(options.texts, options)}\n`)
  if (options.judged.length > 0) console.log(`\n${await compareRelevance(options)}\n`)
  if (options.embeddings === undefined) return
  for (const path of options.judged)
    console.log(`\n${await compareHybrid(nameOf(path), readJudged(path), options.embeddings)}\n`)
}

async function compareSpeed(source: string, options: Options): Promise<string> {
  const texts = readTexts(source)
  const kinds = Object.keys(queryKinds) as QueryKind[]
  const queries = kinds.map((kind) => makeQueries(texts, kind, options.queries))
  const results: {
    readonly name: string
    readonly times: readonly number[]
    readonly cells: readonly string[]
  }[] = []
  // One after the other: the heap of one JavaScript engine would slow the next.
  for (const name of options.contenders) {
    console.error(`${name}: indexing ${texts.length} texts`)
    const contender = makeContender(name, options.python)
    const seconds = await contender.index(texts)
    const times: number[] = []
    for (const ofKind of queries) times.push(await timeOf(contender, ofKind, options.rounds))
    const size = await contender.size?.()
    results.push({ name, times, cells: [shown(seconds, 1), size === undefined ? '-' : shown(100 * size, 1)] })
    contender.close()
  }
  const own = results.find(({ name }) => name === 'vicinal')?.times
  const headings = kinds.flatMap((kind) => [`${kind}, us`, 'ratio'])
  return table(
    [`${texts.length} texts, k = ${hits}`, ...headings, 'indexing, s', 'index, % of text'],
    results.map(({ name, times, cells }) => [
      name,
      ...times.flatMap((time, kind) => [
        shown(time, 1),
        own === undefined ? '-' : shown(time / own[kind]!, 2),
      ]),
      ...cells,
    ]),
  )
}

/** Returns the median of the rounds in microseconds a query. */
async function timeOf(contender: Contender, queries: readonly string[], rounds: number): Promise<number> {
  const { microseconds } = await contender.search(queries.slice(0, warmUpQueries), hits)
  // A slow contender runs fewer queries in a round.
  const count = Math.max(warmUpQueries, Math.ceil((roundSeconds * 1e6) / microseconds))
  const samples: number[] = []
  // The first round warms up.
  for (let round = 0; round <= rounds; round += 1) {
    const run = await contender.search(queries.slice(0, count), hits)
    if (round > 0) samples.push(run.microseconds)
  }
  return median(samples)!
}

async function compareRelevance({ judged, contenders, python }: Options): Promise<string> {
  const collections = judged.map(readJudged)
  const rows: string[][] = []
  for (const name of contenders) {
    const cells: string[] = []
    for (const collection of collections) {
      const contender = makeContender(name, python)
      await contender.index(collection.texts)
      const { found } = await contender.search(collection.queries, depth)
      cells.push(shown(meanNdcg(collection, found), 4))
      contender.close()
    }
    rows.push([name, ...cells])
  }
  return table(['nDCG@10', ...judged.map(nameOf)], rows)
}

function nameOf(path: string): string {
  return basename(path, '.json')
}
