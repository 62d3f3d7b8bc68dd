import { prepareSet } from '../../shared/data/data-set.ts'
import { GroundTruth } from '../../shared/data/ground-truth.ts'
import { shown } from '../../shared/table.ts'
import { prepareContender } from '../run/build.ts'
import { measure, settingsAroundTargets, sweep } from '../run/measure.ts'
import { speedAtRecall } from '../run/speed-at-recall.ts'
import type { Curve } from './curve.ts'

const sizes = [10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000]

/** How build time, memory and speed change with the number of rows of one set, 128 components each. */
export const growth: Curve = {
  title: 'Growth: manifold x 128, built on all threads, searched on one',
  headings: [
    'rows',
    'contender',
    'build, s',
    'rows/s',
    'bytes per row',
    'q/s at 0.95',
    'q/s at 0.99',
    'ef at 0.99',
  ],
  async rows(options, onRow) {
    const { k, minSeconds } = options
    const { rows: most = Number.POSITIVE_INFINITY } = options
    for (const rows of sizes.filter((size) => size <= most)) {
      const set = await prepareSet('manifold', { ...options, rows })
      const truth = await GroundTruth.of(set, 'Euclidean')
      for (const name of options.contenders) {
        const buildThreads = options.buildThreads.slice(-1)
        const { client, builds } = await prepareContender(name, set, 'Euclidean', {
          ...options,
          buildThreads,
        })
        const build = builds.at(-1)!
        const searching = { k, threads: 1, minSeconds }
        const swept = await sweep(client, truth, searching)
        const samples = []
        for (const ef of settingsAroundTargets(swept))
          samples.push(await measure(client, truth, ef, searching))
        await client.close()
        onRow([
          shown(rows),
          name,
          shown(build.seconds, 1),
          shown(rows / build.seconds),
          shown(build.memoryBytes / rows),
          shown(speedAtRecall(samples, 0.95)),
          shown(speedAtRecall(samples, 0.99)),
          shown(swept.find(({ recall }) => recall >= 0.99)?.ef),
        ])
      }
    }
  },
}
