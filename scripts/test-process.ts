/**
 * A process of `npm test`. It runs each test file whose name it receives as a suite of its own, one after the other, and
 * answers with the result and the cost.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { describe } from 'node:test'
import { pathToFileURL } from 'node:url'
import { addFailure, countsOfFile, type TestCounts } from './test-reporter.ts'
import { track } from './test-tracking.ts'

export interface FileReport extends TestCounts {
  /** Elapsed seconds. */
  readonly wall: number
  /** Processor seconds, with those of ended child processes. */
  readonly processor: number
}

/** The time limit of a file, and of its tests that set none. Machines can be far slower, or busy. */
const fileTimeoutMs = 15 * 60_000

/** A process that lives longer after its last file has something open. */
const exitTimeoutMs = 60_000

process.once('disconnect', () => {
  setTimeout(() => {
    const open = process.getActiveResourcesInfo().join(', ')
    console.error(`a process of the tests does not exit; open resources: ${open}`)
    process.exit(1)
  }, exitTimeoutMs).unref()
})

for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, addFailure)

/** Of all files so far. The first file of a process pays for its start. */
let cost = { wall: 0, processor: 0 }

for (let file = await nextFile(); file !== undefined; file = await nextFile()) await runFile(file)

async function nextFile(): Promise<string | undefined> {
  if (!process.connected) return undefined
  const stop = new AbortController()
  const [file] = (await Promise.race([
    once(process, 'message', stop),
    once(process, 'disconnect', stop).then(() => []),
  ])) as readonly (string | undefined)[]
  stop.abort()
  return file
}

async function runFile(file: string): Promise<void> {
  const before = cost
  const counts = countsOfFile()
  track(true)
  void describe(file, { timeout: fileTimeoutMs }, async () => {
    await import(pathToFileURL(file).href).finally(() => track(false))
  })
  const counted = await counts
  cost = { wall: performance.now() / 1000, processor: processorSeconds() }
  const report: FileReport = {
    ...counted,
    wall: cost.wall - before.wall,
    processor: cost.processor - before.processor,
  }
  process.send!(report)
}

/** Of this process, and where the system tells (Linux) also of its ended children. */
function processorSeconds(): number {
  const { user, system } = process.cpuUsage()
  const own = (user + system) / 1e6
  if (process.platform !== 'linux') return own
  // proc(5): fields 16 and 17 are the ticks of waited-for children. The name of the program, field 2, may have spaces.
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)!.split(' ')
  return own + (Number(fields[13]) + Number(fields[14])) / 100
}
