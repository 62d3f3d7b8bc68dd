/**
 * Resident memory of a point, measured: `npm run test:memory -- --points 100000 --dimension 512`. Points are
 * generated, stored and linked by one process; others, started over the same data with the vectors in memory and
 * on disk, tell what they take after loading and after searches on every thread. The same with a few points is
 * taken off, so that what is left is what points cost. Settings come from the environment, as for the service.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { temporaryDirectory } from '../support/process.ts'
import type { MemoryReport, MemoryTask } from './process.ts'

const { values } = parseArgs({
  options: {
    points: { type: 'string', default: '100000' },
    dimension: { type: 'string', default: '512' },
    searches: { type: 'string', default: '1000' },
  },
})
const points = Number(values.points)
const few = Math.ceil(points / 50)
const sizes = { dimension: Number(values.dimension), searches: Number(values.searches) }

await using many = await temporaryDirectory()
await using base = await temporaryDirectory()
await run({ kind: 'fill', dataDir: many.path, points, vectorsOnDisk: false, ...sizes })
await run({ kind: 'fill', dataDir: base.path, points: few, vectorsOnDisk: false, ...sizes })
console.log(`${points} points x ${sizes.dimension}; bytes a point, beyond those of ${few}`)
const rows: Record<string, Record<string, string | number>> = {}
for (const vectorsOnDisk of [false, true]) {
  const task = { kind: 'measure', vectorsOnDisk, ...sizes } as const
  const whole = await run({ ...task, dataDir: many.path, points })
  const small = await run({ ...task, dataDir: base.path, points: few })
  for (const stage of ['loaded', 'searched'] as const) {
    const perPoint = (read: (report: MemoryReport) => number): number =>
      (read(whole) - read(small)) / (points - few)
    const rss = perPoint((report) => report[stage].rss)
    const anonymous = perPoint((report) => report[stage].anonymous)
    const heap = perPoint((report) => report[stage].heap)
    const dataFiles = perPoint((report) => report[stage].dataFiles)
    const { rowBytes, codeBytes, linkBytes } = whole
    const [name, needed] = vectorsOnDisk
      ? ['codes + links', codeBytes + linkBytes]
      : ['raw float32 + links', rowBytes + linkBytes]
    rows[`${vectorsOnDisk ? 'vectors on disk' : 'vectors in memory'}, ${stage}`] = {
      Rss: Math.round(rss),
      anonymous: Math.round(anonymous),
      'of it JavaScript heap': Math.round(heap),
      'mapped data files': Math.round(dataFiles),
      'other files': Math.round(rss - anonymous - dataFiles),
      [name]: Math.round(needed),
      ratio: (anonymous / needed).toFixed(3),
    }
  }
  if (vectorsOnDisk) continue
  console.log(
    `process: ${mebibytes(whole.searched.rss)} MiB, with ${few} points ${mebibytes(small.searched.rss)}`,
  )
}
for (const [stage, row] of Object.entries(rows)) console.log(stage, row)

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
