/**
 * `npm test` runs the suite. `npm run test:product` (`--product`) runs the checks of what users get beside the service
 * (packages, docs, examples, deployment, the console in a browser, benchmarks) and, with mutants, of the checkers;
 * `--mutants` adds slow ones. Other arguments, including file names, are passed to `node --test`. The test processes
 * share a compile cache.
 *
 * At the end, it lists the files that took the most processor time.
 */
import { spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** The time limit of a test or suite that does not set its own. */
const testTimeoutMs = 10 * 60_000

/**
 * Files in progress at a time. More than the processors of a small machine: many tests wait, for a disk, a time limit or
 * a process.
 */
const concurrency = 4

/** Files in the list of costs. */
const listed = 15

const product = [
  ...['test/product/**/*.test.ts', 'test/cluster/faults.test.ts', 'bench/**/*.test.ts'],
  ...['console/src/**/*.test.ts', 'console/test/**/*.test.ts'],
]
const suite = ['src/**/*.test.ts', 'test/**/*.test.ts']

const root = join(import.meta.dirname, '..')
const flags = ['--product', '--mutants']
const isProduct = process.argv.includes('--product')
const hasMutants = process.argv.includes('--mutants')
const args = process.argv.slice(2).filter((arg) => !flags.includes(arg))
const hasFiles = args.some((arg) => !arg.startsWith('-'))

process.exitCode = runTests(hasFiles ? [] : filesToRun())

function filesToRun(): readonly string[] {
  const find = (patterns: readonly string[]): readonly string[] =>
    globSync([...patterns], { cwd: root, exclude: ['**/node_modules'] })
  const productFiles = new Set(find(product))
  return isProduct ? [...productFiles] : find(suite).filter((file) => !productFiles.has(file))
}

/** Returns the exit code. */
function runTests(files: readonly string[]): number {
  const directory = mkdtempSync(join(tmpdir(), 'vicinal-test-costs-'))
  const costs = join(directory, 'costs.tsv')
  const options = [
    ...['--test', `--test-concurrency=${concurrency}`, '--test-reporter=spec'],
    ...[
      `--test-timeout=${testTimeoutMs}`,
      `--import=${pathToFileURL(join(root, 'scripts/test-process.ts'))}`,
    ],
  ]
  const { status, signal } = spawnSync(process.execPath, [...options, ...args, ...files], {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/node-compile'),
      TEST_COSTS: costs,
      ...(hasMutants ? { SLOW_MUTANTS: '1' } : {}),
    },
  })
  if (files.length > 0) printCosts(costs)
  rmSync(directory, { recursive: true })
  if (signal !== null) process.kill(process.pid, signal)
  return status ?? 1
}

function printCosts(path: string): void {
  const costs = readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t'))
    .map(([file, wall, processor]) => ({ file, wall: Number(wall), processor: Number(processor) }))
    .toSorted((one, other) => other.processor - one.processor)
  const sum = costs.reduce((total, { processor }) => total + processor, 0)
  console.log(
    `\n${costs.length} files took ${sum.toFixed(0)} s of processor time. Processor and elapsed seconds of the most expensive:`,
  )
  for (const { file, wall, processor } of costs.slice(0, listed)) {
    console.log(`${processor.toFixed(1).padStart(8)}${wall.toFixed(1).padStart(8)}  ${file}`)
  }
}
