/**
 * `npm run bench:index`: compares index libraries on the same data, in one run. How, and how it is kept fair:
 * docs/decisions/benchmarks.md. This file installs what is missing, runs, prints and writes.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { curves } from './curves/registry.ts'
import { prepareSet } from './data/data-set.ts'
import { compareOn, type SetResult } from './run/compare.ts'
import { type Options, printUsage, readOptions } from './run/options.ts'
import { describe, reportOf, table } from './run/report.ts'

const bench = join(import.meta.dirname, '..')

const options = readOptions(process.argv.slice(2))
if (options === 'help') printUsage()
else await run(options)

async function run(options: Options): Promise<void> {
  installContenders()
  const machine = machineOf()
  console.error(`${machine.processor}, ${machine.cores} cores, ${machine.system}, Node ${machine.node}`)
  if (machine.load > 0.5) console.error(`The machine is busy (load ${machine.load}): times will be off.`)
  const result =
    options.curve === undefined ? await compareAll(options) : await drawCurve(options, options.curve)
  // Not the folders: results are published, and where somebody keeps their data is nobody's business.
  const { cache, wordnet, output, ...settings } = options
  write(output ?? pathOf(options), { machine, settings, ...result })
}

async function compareAll(options: Options): Promise<{ readonly results: readonly SetResult[] }> {
  const results: SetResult[] = []
  for (const name of options.sets) {
    console.error(`${name}: data and exact answers`)
    const set = await prepareSet(name, options)
    const result = await compareOn(set, options)
    results.push(result)
    console.log(`\n${reportOf(result, options.k)}\n`)
  }
  console.log(`${describe(results)}\n`)
  return { results }
}

async function drawCurve(options: Options, name: NonNullable<Options['curve']>): Promise<unknown & object> {
  const { title, headings, rows } = curves[name]
  const all: (readonly string[])[] = []
  await rows(options, (row) => {
    all.push(row)
    console.error(`  ${row.join('  ')}`)
  })
  console.log(`\n## ${title}\n\n${table(headings, all)}\n`)
  return { curve: name, headings, rows: all }
}

/** The libraries under test are no dependencies of the project: they are installed here, when first needed. */
function installContenders(): void {
  if (existsSync(join(bench, 'node_modules/.package-lock.json'))) return
  console.error(
    'Installing the libraries under test (hnswlib is compiled: needs a C++ compiler and Python 3)',
  )
  const { status } = spawnSync('npm', ['ci', '--prefix', bench], { cwd: bench, stdio: ['ignore', 2, 2] })
  if (status !== 0) throw new Error('npm ci in bench/ failed: see above')
}

function machineOf() {
  return {
    processor: cpus()[0]?.model ?? 'unknown processor',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    system: `${process.platform} ${release()} ${process.arch}`,
    node: process.versions.node,
    load: loadavg()[0] ?? 0,
  }
}

function pathOf({ curve }: Options): string {
  const time = new Date().toISOString().slice(0, 19).replaceAll(':', '')
  return join(bench, 'results', `index-${curve ?? 'comparison'}-${time}.json`)
}

function write(path: string, result: object): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `${JSON.stringify({ time: new Date().toISOString(), ...result }, null, 1)}\n`)
  console.error(`Written to ${path}`)
}
