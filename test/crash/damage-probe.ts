/**
 * Opens data directories, one for each line of its input, as a start of the service would, and tells what it
 * would serve. A process of its own, because LMDB can crash on what it does not expect.
 */
import { cpSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { attributesToJson } from '../../src/base/attribute-json.ts'
import { createLogger } from '../../src/base/log.ts'
import { contentTypes, distanceMetrics } from '../../src/base/point.ts'
import { readConfig } from '../../src/config.ts'
import type { Diagnosis } from '../../src/engine/doctor.ts'
import type { Collection } from '../../src/engine/engine.ts'
import { examineData } from '../../src/service/stored-data.ts'
import { openPoints } from './points.ts'
import { probedFilters } from './probed-filters.ts'

/** What is seen of a data directory from outside. */
export interface Probed {
  /** Why it did not open. */
  readonly refusal?: string
  /** By id, everything that can be read; or why not. */
  readonly points?: Readonly<Record<string, ProbedPoint>>
  /** Ids by a search for more than there are, under each metric. */
  readonly found?: readonly (readonly string[])[]
  /** Ids by each of `probedFilters`. */
  readonly matching?: readonly (readonly string[])[]
  /** Of `vicinal doctor`; a text when it refused. */
  readonly doctor: Diagnosis | string
}

export interface ProbedPoint {
  readonly fault?: string
  readonly vector?: readonly number[]
  readonly contentType?: number
  readonly content?: string
  /** As JSON. */
  readonly attributes?: string | undefined
  readonly expiresAtUs?: number | undefined
}

if (import.meta.main) {
  for await (const line of createInterface(process.stdin)) {
    const { dataDir, ids } = JSON.parse(line) as { dataDir: string; ids: readonly string[] }
    process.stdout.write(`${JSON.stringify(await probe(dataDir, ids))}\n`)
  }
}

async function probe(dataDir: string, ids: readonly string[]): Promise<Probed> {
  // What the service mends when it starts, the doctor shall see as it was.
  const copy = `${dataDir}-doctor`
  cpSync(dataDir, copy, { recursive: true })
  const doctor = await examineData(readConfig({ DATA_DIR: copy })).catch((error: Error) => error.message)
  try {
    await using points = await openPoints(dataDir, createLogger({ level: 'silent', pretty: false }))
    const { collection } = points
    const vector = new Float32Array(collection.dimension ?? 1)
    const limit = collection.stats.points + 1
    const queries = distanceMetrics.map((metric) => ({ vector, metric, limit, ef: 64 }))
    const found = (await collection.search(queries)).ids.strings()
    const include = { distance: false, payload: false, vector: false, version: false }
    const matching = await Promise.all(
      probedFilters.map(async (filter) => {
        const { points } = await collection.list({ filter, limit, include })
        return points.map(({ id }) => id)
      }),
    )
    const read: Record<string, ProbedPoint> = {}
    for (const id of new Set([...ids, ...found.flat(), ...matching.flat()])) {
      const point = await readPoint(collection, id)
      if (point !== undefined) read[id] = point
    }
    return { doctor, found, matching, points: read }
  } catch (error) {
    return { doctor, refusal: (error as Error).message }
  }
}

async function readPoint(collection: Collection, id: string): Promise<ProbedPoint | undefined> {
  try {
    const point = await collection.get(id)
    if (point === undefined) return undefined
    const { vector, payload } = point
    return {
      vector: [...vector],
      contentType: contentTypes.indexOf(payload.contentType),
      content: payload.content,
      attributes: payload.attributes && attributesToJson(payload.attributes),
      expiresAtUs: payload.expiresAtUs,
    }
  } catch (error) {
    return { fault: (error as Error).message }
  }
}
