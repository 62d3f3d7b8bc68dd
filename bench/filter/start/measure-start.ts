import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError } from '../../../src/base/errors.ts'
import type { NewPoint } from '../../../src/base/point.ts'
import type { Collection } from '../../../src/collections/collection.ts'
import { readConfig } from '../../../src/config.ts'
import { withCollection } from '../../../test/support/collection.ts'
import { ServerProcess } from '../../../test/support/process.ts'
import { prepareSet } from '../../shared/data/data-set.ts'
import { readRows } from '../../shared/data/matrix-file.ts'
import { rowsOf } from '../../shared/data/rows.ts'
import { typicalPayload } from '../evaluate/typical-points.ts'
import type { Options } from '../options.ts'

/** The start times of the service in seconds, from the start of its process until it is ready. */
export interface Starts {
  readonly points: number
  readonly dimension: number
  readonly warm: readonly number[]
  /** Starts without the attribute file: the index is rebuilt from the payloads. */
  readonly withoutFile: readonly number[]
}

/** Fills a data directory with points of six attributes unless an earlier run did, and starts the service with it. */
export async function measureStarts(options: Options): Promise<Starts> {
  const rows = Math.min(options.rows ?? pointsMax, pointsMax)
  const set = await prepareSet('manifold', { ...options, rows })
  const dataDir = join(options.cache, `start-${set.count}`)
  const mark = join(dataDir, 'filled')
  if (!existsSync(mark)) {
    console.error(`filling ${dataDir} with ${set.count} points`)
    rmSync(dataDir, { recursive: true, force: true })
    await withCollection(dataDir, readConfig({}), (collection) => fill(collection, set))
    writeFileSync(mark, '')
  }
  const rounds = options.quick ? 1 : warmRounds
  // The first start reads from the disk, so it is not counted.
  await secondsToStart(dataDir)
  const warm = await repeated(rounds, () => secondsToStart(dataDir))
  const withoutFile = await repeated(options.quick ? 1 : 2, () => {
    rmSync(join(dataDir, 'collections/0/index/attributes.bin'), { force: true })
    return secondsToStart(dataDir)
  })
  return { points: set.count, dimension: set.dimension, warm, withoutFile }
}

async function fill(
  collection: Collection,
  { basePath, count, dimension }: { basePath: string; count: number; dimension: number },
): Promise<void> {
  for (let from = 0; from < count; from += rowsAtOnce) {
    const vectors = rowsOf(readRows(basePath, from, Math.min(rowsAtOnce, count - from), dimension), dimension)
    const points = vectors.map((vector, at): NewPoint => ({ vector, payload: typicalPayload(from + at) }))
    await insertOnceIndexed(collection, points)
  }
  for (let quiet = 0; quiet < quietRounds; quiet += 1) {
    if (collection.stats.unindexed > 0 || collection.stats.isSettling) quiet = 0
    await sleep(10)
  }
}

/** Retries an insert, because the service refuses points while too many wait for the index. */
async function insertOnceIndexed(collection: Collection, points: readonly NewPoint[]): Promise<void> {
  for (;;) {
    try {
      await collection.insert(points)
      return
    } catch (error) {
      if (!(error instanceof DatabaseError && error.reason === 'overloaded')) throw error
      await sleep(100)
    }
  }
}

async function secondsToStart(dataDir: string): Promise<number> {
  const startMs = performance.now()
  const server = await ServerProcess.start(dataDir)
  const seconds = (performance.now() - startMs) / 1000
  server.command.kill('SIGTERM')
  await server.command.ended
  return seconds
}

async function repeated(rounds: number, measure: () => Promise<number>): Promise<number[]> {
  const all: number[] = []
  for (let round = 0; round < rounds; round += 1) all.push(await measure())
  return all
}

const pointsMax = 1_000_000
const rowsAtOnce = 1000
const warmRounds = 5
const quietRounds = 10
