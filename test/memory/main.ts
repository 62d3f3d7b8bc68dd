/**
 * Measures the resident memory of a point: `npm run test:memory -- --points 100000 --dimension 512`. One process
 * generates, stores and links the points. Others, started over the same data with vectors in memory and on disk, report
 * their memory after loading and after searches on every thread. The same measurement with a few points is subtracted,
 * so that the result is the cost of the points. Settings come from the environment, as for the service.
 *
 * Two processes over the same data differ by some MiB, mostly in unused heap memory. Therefore each measurement is the
 * median of `--runs`, and more points give better results. `--few` is the size of the subtracted data: half the points
 * show the cost of additional points, without memory that is needed only once.
 *
 * Vectors have length 1, as from most models. With `--varied`, their lengths differ: Cosine then gets a second graph,
 * whose links count as required memory.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { temporaryDirectory } from '../support/process.ts'
import type { MemoryReport, MemoryTask } from './process.ts'

const { values } = parseArgs({
  options: {
    points: { type: 'string', default: '100000' },
    few: { type: 'string' },
    dimension: { type: 'string', default: '512' },
    searches: { type: 'string', default: '1000' },
    runs: { type: 'string', default: '5' },
    varied: { type: 'boolean', default: false },
  },
})
const points = Number(values.points)
const few = Number(values.few ?? Math.ceil(points / 50))
const { varied } = values
const sizes = { dimension: Number(values.dimension), searches: Number(values.searches), varied }

await using many = await temporaryDirectory()
await using base = await temporaryDirectory()
const rows: Record<string, Record<string, string | number>> = {}
const fill = { kind: 'fill', vectorsOnDisk: false, ...sizes } as const
const filled = await run({ ...fill, dataDir: many.path, points })
const filledBase = await run({ ...fill, dataDir: base.path, points: few })
console.log(`${points} points x ${sizes.dimension}; bytes a point, beyond those of ${few}`)
console.log(`transparent huge pages: ${hugePages()}`)
addRow('vectors in memory, inserted', [filled], [filledBase], 'loaded', false)
for (const vectorsOnDisk of [false, true]) {
  const task = { kind: 'measure', vectorsOnDisk, ...sizes } as const
  const whole: MemoryReport[] = []
  const small: MemoryReport[] = []
  for (let count = 0; count < Number(values.runs); count += 1) {
    whole.push(await run({ ...task, dataDir: many.path, points }))
    small.push(await run({ ...task, dataDir: base.path, points: few }))
  }
  const place = vectorsOnDisk ? 'on disk' : 'in memory'
  const rss = (reports: readonly MemoryReport[]): number =>
    mebibytes(median(reports, ({ searched }) => searched.rss))
  console.log(`vectors ${place}, process: ${rss(whole)} MiB, with ${few} points ${rss(small)}`)
  for (const stage of ['loaded', 'searched'] as const) {
    addRow(`vectors ${place}, ${stage}`, whole, small, stage, vectorsOnDisk)
  }
}
for (const [name, row] of Object.entries(rows)) console.log(name, row)

function addRow(
  name: string,
  whole: readonly MemoryReport[],
  small: readonly MemoryReport[],
  stage: 'loaded' | 'searched',
  vectorsOnDisk: boolean,
): void {
  const perPoint = (read: (report: MemoryReport) => number): number =>
    Math.round((median(whole, read) - median(small, read)) / (points - few))
  const anonymous = perPoint((report) => report[stage].anonymous)
  const { rowBytes, codeBytes, linkBytes, graphs } = whole[0]!
  const links = graphs === 1 ? 'links' : `links of ${graphs} graphs`
  const [needed, neededBytes] = vectorsOnDisk
    ? [`codes + ${links}`, codeBytes + linkBytes]
    : [`raw float32 + ${links}`, rowBytes + linkBytes]
  rows[name] = {
    Rss: perPoint((report) => report[stage].rss),
    anonymous,
    'of it columns': perPoint((report) => report[stage].columns),
    'of it JavaScript heap': perPoint((report) => report[stage].heap),
    'in huge pages': perPoint((report) => report[stage].huge),
    'mapped data files': perPoint((report) => report[stage].dataFiles),
    'as the service counts': perPoint((report) => report.countedBytes),
    [needed]: Math.round(neededBytes),
    ratio: (anonymous / neededBytes).toFixed(3),
  }
}

function median(reports: readonly MemoryReport[], read: (report: MemoryReport) => number): number {
  return reports.map(read).sort((a, b) => a - b)[reports.length >> 1]!
}

/** If they are always on, the system allocates 2 MiB for the first written byte of a column. */
function hugePages(): string {
  const [, chosen] = /\[(\w+)\]/.exec(readFileSync('/sys/kernel/mm/transparent_hugepage/enabled', 'utf8'))!
  return chosen!
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 1024 / 1024)
}

/** Runs a task in a new process, because memory left by another task would be counted. */
async function run(task: MemoryTask): Promise<MemoryReport> {
  const child = fork(join(import.meta.dirname, 'process.ts'), [JSON.stringify(task)], {
    execArgv: ['--expose-gc'],
  })
  const ended = once(child, 'exit')
  const [report] = (await Promise.race([
    once(child, 'message'),
    ended.then(([code]) => Promise.reject(new Error(`the measuring process ended with code ${code}`))),
  ])) as [MemoryReport]
  await ended
  return report
}
