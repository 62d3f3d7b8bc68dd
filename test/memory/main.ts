/**
 * Resident memory of a point, measured: `npm run test:memory -- --points 100000 --dimension 512`. Points are
 * generated, stored and linked by one process; others, started over the same data with the vectors in memory and
 * on disk, tell what they take after loading and after searches on every thread. The same with a few points is
 * taken off, so that what is left is what points cost. Settings come from the environment, as for the service.
 *
 * Two processes over the same data differ by some MiB, most of it in what heaps keep: so each measurement is the
 * median of `--runs`, and the more points, the better. `--few` is the size of the data that is taken off: with half
 * the points it tells what more points cost, without what is taken once there are enough.
 *
 * Vectors are of length 1, as most models make them. `--varied` leaves their lengths different: Cosine then gets
 * a graph of its own, whose links are counted among those that are needed.
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

/** Where they are always on, the system gives 2 MiB for the first byte that is written of a column. */
function hugePages(): string {
  const [, chosen] = /\[(\w+)\]/.exec(readFileSync('/sys/kernel/mm/transparent_hugepage/enabled', 'utf8'))!
  return chosen!
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 1024 / 1024)
}

/** In a process of its own: memory that another task has left behind would be counted. */
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
