import type { Metric } from '../../../src/base/point.ts'
import { prepareSet } from '../../shared/data/data-set.ts'
import { GroundTruth } from '../../shared/data/ground-truth.ts'
import { shown } from '../../shared/table.ts'
import { NotOffered, prepareContender } from '../run/build.ts'
import { measure } from '../run/measure.ts'
import type { Curve } from './curve.ts'

const distanceMetrics: readonly Metric[] = ['Euclidean', 'Cosine', 'Manhattan', 'Hamming']
const efs = [32, 64, 128, 256]

/** Recall and speed for each metric. If a contender does not support a metric, its row says so. */
export const metricCurve: Curve = {
  title: 'Metrics: recall and queries per second over ef, one thread',
  headings: ['set', 'contender', 'metric', 'ef', 'recall', 'q/s'],
  async rows(options, onRow) {
    const { k, minSeconds } = options
    for (const name of options.sets) {
      const set = await prepareSet(name, options)
      for (const contender of options.contenders) {
        for (const metric of distanceMetrics) {
          const truth = await GroundTruth.of(set, metric)
          const built = { ...options, buildThreads: options.buildThreads.slice(-1), reuse: false }
          try {
            const { client } = await prepareContender(contender, set, metric, built)
            for (const ef of efs) {
              const { recall, queriesPerSecond } = await measure(client, truth, ef, {
                k,
                threads: 1,
                minSeconds,
              })
              onRow([set.name, contender, metric, shown(ef), shown(recall, 4), shown(queriesPerSecond)])
            }
            await client.close()
          } catch (error) {
            if (!(error instanceof NotOffered)) throw error
            onRow([set.name, contender, metric, '-', 'not offered', '-'])
          }
        }
      }
    }
  },
}
