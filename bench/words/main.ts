/**
 * `npm run bench:words` compares the search of words with other engines: speed on a file of texts, relevance on judged
 * collections. All run on one thread, and processor time is counted, so that a busy machine disturbs less.
 */
import { installPackages } from '../shared/install-packages.ts'
import { describeMachine } from '../shared/machine.ts'
import { median } from '../shared/median.ts'
import { shown, table } from '../shared/table.ts'
import { type Contender, makeContender } from './contenders.ts'
import { type Options, readOptions, usage } from './options.ts'
import { meanNdcg, readJudged } from './relevance.ts'
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
}

async function compareSpeed(source: string, options: Options): Promise<string> {
  const texts = readTexts(source)
  const kinds = Object.keys(queryKinds) as QueryKind[]
  const queries = kinds.map((kind) => makeQueries(texts, kind, options.queries))
  const rows: { readonly name: string; readonly cells: readonly string[] }[] = []
  const running: {
    name: string
    contender: Contender
    seconds: number
    samples: number[][]
    counts: number[]
  }[] = []
  for (const name of options.contenders) {
    console.error(`${name}: indexing ${texts.length} texts`)
    const contender = makeContender(name, options.python)
    running.push({
      name,
      contender,
      seconds: await contender.index(texts),
      samples: kinds.map(() => []),
      counts: kinds.map(() => warmUpQueries),
    })
  }
  // Contenders take turns, so that all have the same disturbances. The first round warms up, and shows how many
  // queries a slow contender can run in a round.
  for (let round = 0; round <= options.rounds; round += 1) {
    for (const { contender, samples, counts } of running) {
      for (const [kind, ofKind] of queries.entries()) {
        const { microseconds } = await contender.search(ofKind.slice(0, counts[kind]), hits)
        if (round > 0) samples[kind]!.push(microseconds)
        else counts[kind] = Math.max(warmUpQueries, Math.ceil((roundSeconds * 1e6) / microseconds))
      }
    }
  }
  const own = running.find(({ name }) => name === 'vicinal')?.samples.map((each) => median(each)!)
  for (const { name, contender, seconds, samples } of running) {
    const times = samples.flatMap((each, kind) => {
      const time = median(each)!
      return [shown(time, 1), own === undefined ? '-' : shown(time / own[kind]!, 2)]
    })
    const size = contender.size?.()
    rows.push({ name, cells: [...times, shown(seconds, 1), size === undefined ? '-' : shown(100 * size, 1)] })
    contender.close()
  }
  const headings = kinds.flatMap((kind) => [`${kind}, us`, 'ratio'])
  return table(
    [`${texts.length} texts, k = ${hits}`, ...headings, 'indexing, s', 'index, % of text'],
    rows.map(({ name, cells }) => [name, ...cells]),
  )
}

async function compareRelevance({ judged, contenders, python }: Options): Promise<string> {
  const collections = judged.map(readJudged)
  const rows: string[][] = []
  for (const name of contenders) {
    const cells: string[] = []
    for (const collection of collections) {
      const contender = makeContender(name, python)
      await contender.index(collection.texts)
      cells.push(shown(await meanNdcg(contender, collection), 4))
      contender.close()
    }
    rows.push([name, ...cells])
  }
  const names = judged.map((path) =>
    path
      .split(/[\\/]/)
      .at(-1)!
      .replace(/\.json$/, ''),
  )
  return table(['nDCG@10', ...names], rows)
}
