import { availableParallelism } from 'node:os'
import { prepareSet } from '../../shared/data/data-set.ts'
import { GroundTruth } from '../../shared/data/ground-truth.ts'
import { shown } from '../../shared/table.ts'
import { prepareContender } from '../run/build.ts'
import { measure, sweep } from '../run/measure.ts'
import type { Curve } from './curve.ts'

/** The speed-up of build and search from one thread to one per core, at the ef of recall 0.99. */
export const threadCurve: Curve = {
  title: 'Threads: build, and search at the first ef of recall 0.99 or the largest',
  headings: ['set', 'contender', 'threads', 'build, s', 'speed-up', 'ef', 'recall', 'q/s', 'speed-up'],
  async rows(options, onRow) {
    const { k, minSeconds } = options
    for (const name of options.sets) {
      const set = await prepareSet(name, options)
      const truth = await GroundTruth.of(set, 'Euclidean')
      for (const contender of options.contenders) {
        let alone: { readonly build: number; readonly search: number; readonly ef: number } | undefined
        for (let threads = 1; threads <= availableParallelism(); threads += 1) {
          const built = { ...options, buildThreads: [threads], reuse: false }
          const { client, builds } = await prepareContender(contender, set, 'Euclidean', built)
          const searching = { k, threads, minSeconds }
          const ef = alone?.ef ?? efOf(await sweep(client, truth, searching))
          const { recall, queriesPerSecond } = await measure(client, truth, ef, searching)
          await client.close()
          const { seconds } = builds.at(-1)!
          alone ??= { build: seconds, search: queriesPerSecond, ef }
          onRow([
            set.name,
            contender,
            shown(threads),
            shown(seconds, 1),
            shown(alone.build / seconds, 2),
            shown(ef),
            shown(recall, 4),
            shown(queriesPerSecond),
            shown(queriesPerSecond / alone.search, 2),
          ])
        }
      }
    }
  },
}

function efOf(samples: readonly { readonly ef: number; readonly recall: number }[]): number {
  return (samples.find(({ recall }) => recall >= 0.99) ?? samples.at(-1)!).ef
}
