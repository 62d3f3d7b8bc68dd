import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { distanceMetrics, type Metric } from '../../src/base/point.ts'
import { seededRandom, shuffled } from '../support/random.ts'
import { fewQueriesBar, manyPerFew, recallBar } from './battery.ts'
import { HardService, shutdownTimeoutMs } from './service.ts'
import { type HardVectors, hardVectors } from './sets.ts'
import { type Judgement, judge, k } from './truth.ts'

/** Defects that external tests once found, at a small size. */
const seed = 20_260_601
/** A slower call is stuck, even on a busy machine. */
const hangMs = 240_000
/** Number of queries at each moment. If they find too little, more decide: see `fewQueriesBar`. */
const fewQueries = 50
const hasSmallGraphs = true

describe('points of which nine tenths were deleted', { concurrency: true }, () => {
  it('delay neither inserts nor a stop if one component is a million times the others', async () => {
    const { points } = hardVectors('dominant-component', { points: 6_000, queries: 8, seed, hasSmallGraphs })
    await using service = await HardService.start(points, { hangMs, hasSmallGraphs, env: { THREADS: '1' } })
    await service.insert([...points.keys()], 1000)
    await service.search(points.slice(0, 1), 'Cosine', k, 1)
    const gone = await deleteMost(service)
    const insertFault = await service.insert(gone, 500).catch(({ message }: Error) => message)
    const stopMs = await service.terminate(shutdownTimeoutMs + hangMs / 2)
    assert.deepEqual(
      { insertFault, isStopped: stopMs !== undefined },
      { insertFault: undefined, isStopped: true },
    )
  })

  it('do not reduce the recall on a curved surface, immediately, after a kill and a start, or later', async () => {
    const surface = hardVectors('curved-surface', {
      points: 5_400,
      queries: manyPerFew * fewQueries,
      seed,
      hasSmallGraphs,
    })
    await using service = await HardService.start(surface.points, { hangMs, hasSmallGraphs })
    await service.insert([...surface.points.keys()], 1000)
    assert.notEqual(await service.settled(hangMs), undefined, 'the index settles')
    const faults = await recallFaults(service, surface, 'settled')
    await deleteMost(service)
    faults.push(...(await recallFaults(service, surface, 'deleted')))
    await service.kill()
    await service.restart()
    faults.push(...(await recallFaults(service, surface, 'restarted')))
    await service.settled(hangMs)
    faults.push(...(await recallFaults(service, surface, 'later')))
    assert.deepEqual(faults, [], `seed ${seed}`)
  })
})

/** Deletes nine of ten points, many concurrently, in random order; returns their numbers. */
async function deleteMost(service: HardService): Promise<readonly number[]> {
  const { stored } = service
  const gone = shuffled(stored, seededRandom(seed)).slice(0, stored.length * 0.9)
  await service.remove(gone, 190)
  return gone
}

async function recallFaults(
  service: HardService,
  { points, queries, isWhole }: HardVectors,
  moment: string,
): Promise<string[]> {
  const ask = async (asked: readonly Float32Array[], metric: Metric): Promise<Judgement> => {
    const answers = await service.search(asked, metric, k, 16)
    return judge({ points, inserted: service.stored, isWhole }, asked, metric, answers)
  }
  const faults: string[] = []
  for (const metric of distanceMetrics) {
    const few = await ask(shuffled(queries, seededRandom(seed)).slice(0, fewQueries), metric)
    const isUnclear = few.recall < recallBar && few.recall >= fewQueriesBar
    const all = isUnclear ? await ask(queries, metric) : undefined
    const { recall } = all ?? few
    const disordered = few.disordered + (all?.disordered ?? 0)
    if (recall < recallBar) faults.push(`${moment}, ${metric}: recall ${recall}`)
    if (disordered > 0) faults.push(`${moment}, ${metric}: ${disordered} answers out of order`)
  }
  return faults
}
