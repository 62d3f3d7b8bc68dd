/**
 * `npm test` runs the suite. `npm run test:product` (`--product`) runs the checks of what users get beside the service
 * (packages, docs, examples, deployment, the console in a browser, benchmarks) and, with mutants, of the checkers;
 * `--mutants` adds slow ones. With file names, it runs these files and prints every test. Options of Node, such as
 * `--test-name-pattern=...`, are passed on.
 *
 * A few processes that live long run the files one after the other, so that most files find their modules loaded and
 * compiled. There are two kinds of files: unit tests compute, files that start services mostly wait. Half of the lanes
 * first take files of one kind, half of the other, and then what is left.
 *
 * Processor time is a test's price on every machine, also a busy one. Each file has a budget; the run
 * names the files that exceed it, and fails if one takes more than twice its budget, as the machine is.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, globSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { FileReport } from './test-process.ts'
import type { TestFailure } from './test-reporter.ts'

const budgetSeconds = 10

/** A busy machine takes twice the processor time for the same work: its caches and cores are shared. */
const busyFactor = 2

/**
 * Files that may take more: what they cost on a quiet machine with two cores. They also start first, so that none of
 * them runs alone at the end. The list only gets shorter.
 */
const budgets: Readonly<Record<string, number>> = {
  // Graphs over enough points that a walk is not a scan, and searches of many kinds against the exact scan.
  'src/graphs/indexer.test.ts': 12,
  'src/graphs/required-recall.test.ts': 12,
  'test/hard/battery.test.ts': 26,
  'test/hard/reproductions.test.ts': 18,
  'test/serving.test.ts': 14,
  // Many threads that load all of the transports; the whole contract six times, three of them on such threads.
  'test/contract.test.ts': 12,
  'test/serving-threads.test.ts': 20,
  // Real processes, which are killed, or whose disk fails; many stores that are opened one after the other.
  'test/cli.test.ts': 17,
  'test/disk-faults.test.ts': 14,
  'test/repair.test.ts': 12,
  // A third of its starts keep vectors in memory, the others on disk.
  'test/crash/crash.test.ts': 21,
  // Starts with each kind of damage, and recall measured for each.
  'test/slots-on-disk.test.ts': 14,
  'test/crash/io-faults.test.ts': 18,
  'test/fuzz/fuzz.test.ts': 14,
  // Clusters.
  'test/cluster/parts.test.ts': 20,
  'test/cluster/lost-log.test.ts': 14,
  // Of the product: campaigns of faults, packages that are built and installed, browsers.
  'test/product/backup-s3.test.ts': 12,
  'test/product/suites-otherwise.test.ts': 110,
  'test/product/cluster-mutants.test.ts': 18,
  'test/cluster/faults.test.ts': 44,
  'test/product/package.test.ts': 15,
  'console/test/cluster.test.ts': 18,
  'console/test/first-use.test.ts': 14,
  'console/test/accessibility.test.ts': 13,
}

/** From this number of files on, it pays to compile all sources before the first test. */
const filesToCompile = 20

/** Starting a process and loading all modules costs 1 s. Tests leave some memory behind. */
const filesPerProcess = 30

/** Files that have a process each, by the beginnings of their paths: many processes, or settings of the whole process. */
const alone: readonly string[] = [
  'test/product/',
  'bench/',
  'console/test/',
  'test/cluster/',
  'test/crash/',
  'test/fuzz/',
  'test/hard/',
  'test/soak/',
  'test/stress.test.ts',
]

/** A file that takes longer has a process that no longer runs timers. */
const hungMs = 20 * 60_000

/** Files in the list of costs. */
const listed = 20

const product = [
  'test/product/**/*.test.ts',
  'test/cluster/faults.test.ts',
  'bench/**/*.test.ts',
  'console/src/**/*.test.ts',
  'console/test/**/*.test.ts',
]
const suite = ['src/**/*.test.ts', 'test/**/*.test.ts']

/** Files in progress: more than processors, since many tests wait. */
const lanes = 3 * Math.max(2, Math.min(4, availableParallelism()))

/**
 * Test data is in memory where there is enough of it. A sync of a disk takes 2 to 8 ms and .4 ms of processor time, and
 * the suite makes thousands. What a disk loses is tested by replay of the recorded calls, and what it refuses on file
 * systems that a test mounts.
 */
const memoryDirectory = '/dev/shm'
const memoryBytesMin = 4 * 1024 ** 3

/** Tests of the product start programs that they have installed, which a file system in memory may not allow. */
const onDisk = /^(test\/product|bench|console)\//

const root = join(import.meta.dirname, '..')
const environment = { ...process.env, NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/node-compile') }
const flags = ['--product', '--mutants']
const args = process.argv.slice(2).filter((arg) => !flags.includes(arg))
const options = args.filter((arg) => arg.startsWith('-'))
const named = args.filter((arg) => !arg.startsWith('-')).map((arg) => relative(root, resolve(arg)))
const isProduct = process.argv.includes('--product')

interface FileResult extends FileReport {
  readonly file: string
}

class Run {
  /** Not started. */
  readonly #files: Set<string>
  readonly #results: FileResult[] = []

  constructor(files: readonly string[]) {
    // Those with processes of their own wait longest.
    const ranked = files.toSorted(
      (one, other) => budgetOf(other) - budgetOf(one) || Number(isAlone(other)) - Number(isAlone(one)),
    )
    this.#files = new Set(ranked)
  }

  /** Runs all files. */
  async run(): Promise<readonly FileResult[]> {
    const indices = Array.from({ length: Math.min(lanes, this.#files.size) }, (_, index) => index)
    await Promise.all(indices.map((index) => this.#runLane(index % 2 === 0 ? 'computes' : 'waits')))
    return this.#results
  }

  async #runLane(preferred: Kind): Promise<void> {
    let file = this.#take(preferred)
    while (file !== undefined) {
      const child = startProcess(file)
      const exited = once(child, 'exit')
      for (let count = 0; file !== undefined && count < filesPerProcess && child.connected; count += 1) {
        const last: string = file
        await this.#runFile(child, last)
        file = this.#take(preferred)
        if (isAlone(last) || (file !== undefined && isAlone(file))) break
      }
      if (child.connected) child.disconnect()
      await exited
      if (child.exitCode !== 0) process.exitCode = 1
    }
  }

  #take(preferred: Kind): string | undefined {
    const files = [...this.#files]
    const file = files.find((each) => kindOf(each) === preferred) ?? files[0]
    if (file !== undefined) this.#files.delete(file)
    return file
  }

  async #runFile(child: ChildProcess, file: string): Promise<void> {
    const hung = setTimeout(() => child.kill('SIGKILL'), hungMs)
    const report = await new Promise<FileReport>((resolve) => {
      const onExit = (code: number | null, signal: NodeJS.Signals | null): void => {
        child.off('message', onMessage)
        const error = `the process ended with ${code ?? signal}`
        resolve({ wall: 0, processor: 0, passed: 0, skipped: 0, failures: [{ name: file, error }] })
      }
      const onMessage = (message: unknown): void => {
        child.off('exit', onExit)
        resolve(message as FileReport)
      }
      child.once('exit', onExit).once('message', onMessage)
      child.send(file)
    })
    clearTimeout(hung)
    const { passed, skipped, failures } = report
    const isEmpty = options.length === 0 && passed + skipped + failures.length === 0
    const result = { file, ...report, ...(isEmpty && { failures: [{ name: file, error: 'no test ran' }] }) }
    this.#results.push(result)
    if (named.length === 0) printFile(result)
  }
}

type Kind = 'computes' | 'waits'

/** Tests beside sources compute; those in test/ start services and wait. */
function kindOf(file: string): Kind {
  return /^(console\/)?src\//.test(file) ? 'computes' : 'waits'
}

function budgetOf(file: string): number {
  return budgets[file] ?? budgetSeconds
}

/**
 * How many times as long as usual everything takes, at least 1: the median over the files whose budget is what they cost.
 * Where all files take longer, the machine is slow, and none of them has become more expensive. Beyond `slowestMax`, that
 * is no longer believed.
 */
function slownessOf(results: readonly FileResult[]): number {
  const shares = results
    .flatMap(({ file, processor }) => (file in budgets ? [processor / budgets[file]!] : []))
    .sort((one, other) => one - other)
  if (shares.length < sharesMin) return 1
  return Math.min(slowestMax, Math.max(1, shares[Math.floor(shares.length / 2)]!))
}

const sharesMin = 5
const slowestMax = 2.5

/** Whether a file has a process of its own. */
function isAlone(file: string): boolean {
  return alone.some((each) => file.startsWith(each))
}

function startProcess(file: string): ChildProcess {
  const reporter = `--test-reporter=${pathToFileURL(join(root, 'scripts/test-reporter.ts'))}`
  const spec = named.length === 0 ? [] : ['--test-reporter=spec', '--test-reporter-destination=stdout']
  const reporters = [reporter, '--test-reporter-destination=stdout', ...spec]
  const program = join(root, 'scripts/test-process.ts')
  // In this order: what the second replaces, until the test runner has it, must not reach the modules under test.
  const hooks = ['test-threads.ts', 'test-tracking.ts'].map(
    (name) => `--import=${pathToFileURL(join(root, 'scripts', name))}`,
  )
  return spawn(process.execPath, [...hooks, ...reporters, ...options, program], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: {
      ...environment,
      TMPDIR: onDisk.test(file) ? tmpdir() : testData,
      ...(process.argv.includes('--mutants') ? { SLOW_MUTANTS: '1' } : {}),
    },
  })
}

/**
 * Fills Node's cache of compiled sources, which a process writes when it exits. Otherwise every process would compile
 * them until the first has tested its files, and those that are killed would never have anything to read.
 */
async function compileSources(): Promise<void> {
  const child = spawn(process.execPath, [join(root, 'scripts/compile-sources.ts')], {
    stdio: 'inherit',
    env: environment,
  })
  await once(child, 'exit')
}

function printFile({ file, wall, processor, passed, failures }: FileResult): void {
  const mark = failures.length === 0 ? '✔' : '✖'
  const seconds = `${processor.toFixed(1).padStart(6)}${wall.toFixed(1).padStart(7)}`
  console.log(`${mark}${seconds}${String(passed).padStart(5)}  ${file}`)
  for (const failure of failures) printFailure(file, failure)
}

function printFailure(file: string, { name, error }: TestFailure): void {
  console.log(`  ✖ ${file}: ${name}\n${error.replaceAll(/^/gm, '    ')}`)
}

function filesToRun(): readonly string[] {
  if (named.length > 0) return globSync([...named], { cwd: root })
  const find = (patterns: readonly string[]): readonly string[] =>
    globSync([...patterns], { cwd: root, exclude: ['**/node_modules'] })
  const productFiles = new Set(find(product))
  return isProduct ? [...productFiles] : find(suite).filter((file) => !productFiles.has(file))
}

/** @returns whether the run succeeded */
function report(results: readonly FileResult[]): boolean {
  const sum = (of: (result: FileResult) => number): number =>
    results.reduce((total, result) => total + of(result), 0)
  const failed = results.filter(({ failures }) => failures.length > 0)
  console.log('\nProcessor and elapsed seconds of the most expensive files:')
  const byCost = results.toSorted((one, other) => other.processor - one.processor)
  for (const { file, wall, processor } of byCost.slice(0, listed)) {
    console.log(`${processor.toFixed(1).padStart(7)}${wall.toFixed(1).padStart(7)}  ${file}`)
  }
  const seconds = sum(({ processor }) => processor).toFixed(0)
  console.log(`\n${results.length} files took ${seconds} s of processor time.`)
  for (const { file, processor } of byCost.filter((each) => each.processor > budgetOf(each.file))) {
    console.log(`${file} took ${processor.toFixed(1)} s of processor time; its budget is ${budgetOf(file)} s`)
  }
  const factor = busyFactor * slownessOf(results)
  // Budgets are of services without serving threads, over both transports. A few files do not tell how slow the machine
  // is.
  const { VICINAL_TEST_SERVING_THREADS: threads, VICINAL_TEST_HTTP2: http2 } = process.env
  const isUsual = named.length === 0 && threads === undefined && http2 === undefined
  const expensive = results.filter(({ file, processor }) => isUsual && processor > factor * budgetOf(file))
  for (const { file } of expensive)
    console.log(`✖ ${file} took more than ${factor.toFixed(1)} times its budget`)
  for (const { file, failures } of failed) for (const failure of failures) printFailure(file, failure)
  printClosingLines(sum)
  return results.length > 0 && failed.length === 0 && expensive.length === 0
}

/** The lines with which Node's own test runner ends. */
function printClosingLines(sum: (of: (result: FileResult) => number) => number): void {
  const [pass, skipped] = [sum((each) => each.passed), sum((each) => each.skipped)]
  const fail = sum(({ failures }) => failures.length)
  const counts = {
    tests: pass + fail + skipped,
    suites: sum(() => 1),
    pass,
    fail,
    cancelled: 0,
    skipped,
    todo: 0,
  }
  for (const [name, count] of Object.entries(counts)) console.log(`ℹ ${name} ${count}`)
  console.log(`ℹ duration_ms ${performance.now().toFixed(3)}`)
}

/** Creates the directory for temporary directories of tests, which is removed at the end with what tests left there. */
function testDirectory(): string {
  const hasMemory = process.env.TMPDIR === undefined && freeBytes(memoryDirectory) >= memoryBytesMin
  const path = mkdtempSync(join(hasMemory ? memoryDirectory : tmpdir(), 'vicinal-tests-'))
  // Some tests start services as another user.
  chmodSync(path, 0o711)
  process.once('exit', () => rmSync(path, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
  return path
}

function freeBytes(directory: string): number {
  try {
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize
  } catch {
    // Not on this system.
    return 0
  }
}

const testData = testDirectory()
const files = filesToRun()
if (files.length >= filesToCompile) await compileSources()
if (!report(await new Run(files).run())) process.exitCode = 1
