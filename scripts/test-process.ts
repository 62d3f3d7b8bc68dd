/**
 * Loaded into the process of each test file by `npm test`. It ends a process that does not exit on its own, and records
 * what the file cost.
 */
import { appendFileSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { isMainThread } from 'node:worker_threads'

/** The longest files take two minutes on two cores. Machines can be far slower, or busy. */
const fileTimeoutMs = 20 * 60_000

/** `node --test` sets NODE_TEST_CONTEXT for the processes of test files. */
if (isMainThread && process.env.NODE_TEST_CONTEXT !== undefined) {
  // A failing test can leave a server or store open, which keeps its process alive forever. `--test-timeout` ends tests,
  // but not processes.
  setTimeout(() => {
    const open = process.getActiveResourcesInfo().join(', ')
    console.error(
      `${process.argv[1]} has not exited after ${fileTimeoutMs / 60_000} minutes; open resources: ${open}`,
    )
    process.exit(1)
  }, fileTimeoutMs).unref()
  const { TEST_COSTS } = process.env
  // Processes that a test starts do not belong to the list: their time is in that of the test.
  delete process.env.TEST_COSTS
  if (TEST_COSTS !== undefined) process.on('exit', () => recordCost(TEST_COSTS))
}

/** Appends a line to the list of costs: file, seconds from start to exit, processor seconds with all child processes. */
function recordCost(path: string): void {
  const file = relative(process.cwd(), process.argv[1]!)
  appendFileSync(path, `${file}\t${performance.now() / 1000}\t${processorSeconds()}\n`)
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
