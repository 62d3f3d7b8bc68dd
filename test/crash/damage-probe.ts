/**
 * Opens data directories, one for each line of its input, as a start of the service would, and reports what it would
 * serve. It is a separate process, because unexpected bytes can crash LMDB.
 */
import { cpSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { attributesToJson } from '../../src/base/attributes.ts'
import { createLogger } from '../../src/base/log.ts'
import { contentTypes, distanceMetrics } from '../../src/base/point.ts'
import type { Diagnosis } from '../../src/collections/doctor.ts'
import type { Collection } from '../../src/collections/engine.ts'
import { readConfig } from '../../src/config.ts'
import { examineData } from '../../src/service/stored-data.ts'
import { openPoints } from './points.ts'
import { probedFilters } from './probed-filters.ts'

/** What a data directory shows from outside. */
export interface Probed {
  /** Why the directory did not open. */
  readonly refusal?: string
  /** By id: the point as read, or why reading failed. */
  readonly points?: Readonly<Record<string, ProbedPoint>>
  /** For each metric: ids from a search with a limit above the number of points. */
  readonly found?: readonly (readonly string[])[]
  /** For each of `probedFilters`: matching ids. */
  readonly matching?: readonly (readonly string[])[]
  /** The result of `vicinal doctor`; a text if it refused. */
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
  // The doctor examines a copy, because the service repairs some damage when it starts.
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
