/**
 * A process of `npm test`. It runs each test file whose name it receives as a suite of its own, one after the other, and
 * answers with the result and the cost.
 */
import asyncHooks, { type AsyncHook } from 'node:async_hooks'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { countsOfFile, type TestCounts } from './test-reporter.ts'

export interface FileReport extends TestCounts {
  /** Elapsed seconds. */
  readonly wall: number
  /** Processor seconds, with those of ended child processes. */
  readonly processor: number
}

/**
 * The hook by which Node's test runner knows the suite that a test belongs to, and the test that an error belongs to. It
 * costs a tenth of the time of most tests, since it follows every promise. So it is only enabled while a file defines
 * its tests.
 */
let hook: AsyncHook | undefined
const { createHook } = asyncHooks
asyncHooks.createHook = (callbacks) => {
  hook = createHook(callbacks)
  return hook
}
const { describe } = await import('node:test')

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

/** What to tell about the file in progress if an error occurs that no test handles: this ends the process. */
let reportError: ((error: unknown) => void) | undefined

for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
  process.on(event, (error: unknown) => {
    console.error(error)
    reportError?.(error)
    process.exit(1)
  })
}

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
  const send = (counted: TestCounts): void => {
    cost = { wall: performance.now() / 1000, processor: processorSeconds() }
    const [wall, processor] = [cost.wall - before.wall, cost.processor - before.processor]
    process.send!({ ...counted, wall, processor } satisfies FileReport)
  }
  reportError = (error) => {
    const failure = { name: 'an error that no test handles', error: inspect(error, { depth: 6 }) }
    send({ passed: 0, skipped: 0, failures: [failure] })
  }
  const counts = countsOfFile()
  hook?.enable()
  void describe(file, { timeout: fileTimeoutMs }, async () => {
    await import(pathToFileURL(file).href)
    hook?.disable()
  })
  const counted = await counts
  reportError = undefined
  send(counted)
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
