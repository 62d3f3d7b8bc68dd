import { prepareSet } from '../../shared/data/data-set.ts'
import { GroundTruth } from '../../shared/data/ground-truth.ts'
import { shown } from '../../shared/table.ts'
import { prepareContender } from '../run/build.ts'
import { measure, sweep } from '../run/measure.ts'
import type { Curve } from './curve.ts'

/**
 * The speed-up of build and search with more threads, at the ef of recall 0.99. The index of the last build is searched
 * with every number of threads, each of which searches by itself.
 */
export const threadCurve: Curve = {
  title: 'Threads: builds, and searches at the first ef of recall 0.99 or the largest',
  headings: [
    'set',
    'contender',
    'what',
    'threads',
    'ef',
    'recall',
    'seconds',
    'q/s',
    'speed-up',
    'cores used',
  ],
  async rows(options, onRow) {
    const { k, minSeconds, threads: counts } = options
    for (const name of options.sets) {
      const set = await prepareSet(name, options)
      const truth = await GroundTruth.of(set, 'Euclidean')
      for (const contender of options.contenders) {
        const { client, builds } = await prepareContender(contender, set, 'Euclidean', options)
        for (const { threads, seconds } of builds) {
          const speedUp = shown(builds[0]!.seconds / seconds, 2)
          onRow([set.name, contender, 'build', shown(threads), '', '', shown(seconds, 1), '', speedUp, ''])
        }
        const ef = efOf(await sweep(client, truth, { k, threads: 1, minSeconds }))
        let first: number | undefined
        for (const threads of counts) {
          const { recall, queriesPerSecond, coresUsed } = await measure(client, truth, ef, {
            k,
            threads,
            minSeconds,
          })
          first ??= queriesPerSecond
          onRow([
            set.name,
            contender,
            'search',
            shown(threads),
            shown(ef),
            shown(recall, 4),
            '',
            shown(queriesPerSecond),
            shown(queriesPerSecond / first, 2),
            shown(coresUsed, 1),
          ])
        }
        await client.close()
      }
    }
  },
}

function efOf(samples: readonly { readonly ef: number; readonly recall: number }[]): number {
  return (samples.find(({ recall }) => recall >= 0.99) ?? samples.at(-1)!).ef
}
