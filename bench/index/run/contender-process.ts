/**
 * The process of one contender. contender-client.ts starts it. It loads the vectors and one library, and answers
 * requests one after another. A separate process makes memory measurable, and a crash does not affect other contenders.
 */
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type AttributeTable, readTable } from '../../shared/data/attribute-table.ts'
import { readRows } from '../../shared/data/matrix-file.ts'
import { type Contender, type ContenderVariant, type SearchRequest, timed } from '../contenders/contender.ts'
import { contenders } from '../contenders/registry.ts'
import { FilteredSearches } from './filtered-searches.ts'
import type { Answer, Answers, BuildQuestion, Built, Found, Question, SearchQuestion } from './messages.ts'

let variant: ContenderVariant
let contender: Contender
let folder: string
let data: BuildQuestion
let queries: Float32Array
let filtered: FilteredSearches | undefined
/** Referenced until memory is measured, so that it is not garbage-collected earlier. */
let vectors: Float32Array
/** Whether an index is open. Closing one that failed to open would hide the original error. */
let isOpen = false

process.on('message', async (question: Question) => {
  try {
    send({ answer: await answer(question) })
  } catch (error) {
    send({ fault: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  }
  if (question.kind === 'close') process.disconnect()
})

/** Runs after `close`, or when the benchmark itself has ended. */
process.once('disconnect', () => process.exit())

function send(message: Answer): void {
  process.send!(message)
}

async function answer(question: Question): Promise<Answers[keyof Answers]> {
  switch (question.kind) {
    case 'open':
      folder = question.folder
      variant = await contenders[question.name]!()
      contender = variant.create(folder)
      return variant.description
    case 'build':
      return build(question)
    case 'load':
      takeQueries(question)
      await contender.load!({ ...question, attributes: attributesOf(question) })
      isOpen = true
      return undefined
    case 'save':
      await contender.save?.()
      return contender.load !== undefined
    case 'search':
      return search(question)
    case 'filtered':
      filtered ??= new FilteredSearches(contender, queries, data)
      return filtered.answer(question)
    case 'callCost':
      return callCost(question.k)
    case 'reinsert':
      return reinsert(question.ids)
    case 'close':
      if (isOpen) await contender.close()
      return undefined
  }
}

async function build(question: BuildQuestion): Promise<Built> {
  takeQueries(question)
  const attributes = attributesOf(question)
  vectors = readRows(question.basePath, 0, question.count, question.dimension)
  await settleMemory()
  const before = process.memoryUsage.rss()
  const { seconds } = await contender.build({ ...question, vectors, attributes })
  isOpen = true
  const peak = highestResidentBytes()
  await settleMemory()
  const memoryBytes = process.memoryUsage.rss() - before
  vectors = new Float32Array()
  const peakBytes = peak === undefined ? undefined : peak - before
  return { seconds, memoryBytes, peakBytes, ownBytes: contender.ownBytes?.() }
}

function attributesOf({ attributesPath }: BuildQuestion): AttributeTable | undefined {
  return attributesPath === undefined ? undefined : readTable(attributesPath)
}

function takeQueries(question: BuildQuestion): void {
  data = question
  queries = readRows(question.queryPath, 0, question.queryCount, question.dimension)
}

async function search({ k, ef, threads, minSeconds }: SearchQuestion): Promise<Found> {
  const request: SearchRequest = { queries, k, ef, threads }
  await contender.search({ ...request, queries: queries.subarray(0, warmUpQueries * data.dimension) })
  const processorBefore = process.cpuUsage()
  const start = process.hrtime.bigint()
  let times = 0
  let seconds = 0
  let elapsed: number
  let ids: Uint32Array
  do {
    const found = await contender.search(request)
    ids = found.ids
    seconds += found.seconds
    times += 1
    elapsed = Number(process.hrtime.bigint() - start) / 1e9
  } while (elapsed < minSeconds)
  const { user, system } = process.cpuUsage(processorBefore)
  const queriesPerSecond = (times * queries.length) / data.dimension / seconds
  return { ids, queriesPerSecond, coresUsed: (user + system) / 1e6 / elapsed }
}

/** Warms up the CPU caches: another contender ran in between, or this one has just been loaded. */
const warmUpQueries = 100

/**
 * The time of a query on an almost empty index, in seconds: the cost of calling the library, mostly of converting
 * arrays.
 */
async function callCost(k: number): Promise<number> {
  const count = Math.max(k, 16)
  const small = join(folder, 'call-cost')
  mkdirSync(small, { recursive: true })
  const tiny = variant.create(small)
  const few = queries.slice(0, count * data.dimension)
  await tiny.build({ ...data, vectors: few, count, threads: 1 })
  const seconds: number[] = []
  for (let time = 0; time < 5; time += 1) {
    seconds.push((await tiny.search({ queries, k, ef: k, threads: 1 })).seconds)
  }
  await tiny.close()
  return (Math.min(...seconds) * data.dimension) / queries.length
}

async function reinsert(ids: Uint32Array): Promise<number | undefined> {
  if (contender.reinsert === undefined) return undefined
  const { basePath, dimension } = data
  const vectors = new Float32Array(ids.length * dimension)
  for (const [place, id] of ids.entries())
    vectors.set(readRows(basePath, id, 1, dimension), place * dimension)
  return timed(() => contender.reinsert!(ids, vectors))
}

/** The peak of resident memory, on Linux only. The value of getrusage is inherited from the parent process. */
function highestResidentBytes(): number | undefined {
  if (!existsSync('/proc/self/status')) return undefined
  const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024
}

/**
 * Waits until V8 has returned unused memory. Only a last-resort collection does so immediately. After any other
 * collection, V8 keeps the pages that held the arrays for hnswlib.
 */
async function settleMemory(): Promise<void> {
  await globalThis.gc!({ type: 'major', execution: 'async', flavor: 'last-resort' })
  await setTimeout(500)
}
