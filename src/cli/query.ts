import { readFileSync } from 'node:fs'
import { DatabaseError } from '../base/errors.ts'
import { jsonNumbers } from '../base/json-numbers.ts'
import type { Metric } from '../base/point.ts'
import type { Point, PointsClient } from '../client/client.ts'
import { type ConnectionOptions, collectionOf, withClient } from './connection.ts'
import { checkReadable } from './files.ts'
import { type ReaderOptions, readItems } from './readers.ts'
import { type Environment, UsageError } from './usage.ts'

export interface QueryOptions extends ConnectionOptions, ReaderOptions {
  readonly vector?: string
  readonly vectorFile?: string
  readonly row?: number
  readonly like?: string
  readonly metric: Metric
  readonly limit: number
  readonly ef?: number
  readonly json?: boolean
}

/** Searches and prints rank, id and content of what was found. */
export async function query(options: QueryOptions, environment: Environment): Promise<void> {
  checkSources(options)
  await withClient(options, environment, async (client) => {
    const { metric, limit, ef } = options
    const vector = await vectorOf(options, client)
    const ids = await client.search({ vector, metric, limit, ...(ef === undefined ? {} : { ef }) })
    if (ids.length === 0) {
      const collection = collectionOf(options, environment)
      const place = collection === undefined ? 'the database' : `the collection ${collection}`
      console.error(`nothing found: ${place} is empty`)
    }
    // Printed as they come: whoever reads the first line only need not wait for the rest.
    for (let first = 0; first < ids.length; first += pointsAtOnce) {
      const some = ids.slice(first, first + pointsAtOnce)
      const points = await Promise.all(some.map((id) => getIfThere(client, id)))
      for (const [index, point] of points.entries()) {
        if (point !== undefined) console.log(lineOf(point, first + index + 1, options.json ?? false))
      }
    }
  })
}

/** A point can be deleted between the search and the look at it. */
async function getIfThere(client: PointsClient, id: string): Promise<Point | undefined> {
  try {
    return await client.get(id)
  } catch (error) {
    if (error instanceof DatabaseError && error.reason === 'not_found') return undefined
    throw error
  }
}

export async function getPoint(
  id: string,
  options: ConnectionOptions,
  environment: Environment,
): Promise<void> {
  await withClient(options, environment, async (client) => {
    const point = await client.get(id)
    const rest = JSON.stringify({ payload: payloadOf(point) })
    console.log(`{"id":${JSON.stringify(point.id)},"vector":${jsonNumbers(point.vector)},${rest.slice(1)}`)
  })
}

export async function deletePoint(
  id: string,
  options: ConnectionOptions,
  environment: Environment,
): Promise<void> {
  await withClient(options, environment, (client) => client.delete(id))
}

function checkSources({ vector, vectorFile, like, row }: QueryOptions): void {
  if ([vector, vectorFile, like].filter((each) => each !== undefined).length !== 1) {
    throw new UsageError('give the query as one of --vector, --vector-file and --like')
  }
  if (row !== undefined && vectorFile === undefined) throw new UsageError('--row needs --vector-file')
}

async function vectorOf(options: QueryOptions, client: PointsClient): Promise<ArrayLike<number>> {
  const { vector, vectorFile, row, like } = options
  if (like !== undefined) return (await client.get(like)).vector
  if (vectorFile !== undefined) checkReadable(vectorFile, '--vector-file')
  if (row !== undefined) return vectorOfRow(vectorFile!, row, options)
  if (vector !== undefined) return vectorIn(vector, '--vector')
  return vectorIn(readFileSync(vectorFile!, 'utf8'), vectorFile!)
}

async function vectorOfRow(file: string, row: number, options: QueryOptions): Promise<ArrayLike<number>> {
  let at = 0
  for await (const { where, point, fault } of readItems(file, options)) {
    if (at === row && point !== undefined) return point.vector
    if (at === row) throw new Error(`${where}: ${fault}`)
    at += 1
  }
  throw new UsageError(`--row: ${file} has rows 0 to ${at - 1}, none is ${row}`)
}

/** A JSON array, or an object that has one; or bare numbers, as `1,2,3` or `1 2 3`. */
function vectorIn(text: string, source: string): number[] {
  const isJson = /^\s*[[{]/.test(text)
  let parsed: unknown
  try {
    parsed = JSON.parse(isJson ? text : `[${text.trim().split(/\s*,\s*|\s+/)}]`)
  } catch (error) {
    throw new UsageError(`${source} is no vector like [1, 2, 3] or 1,2,3: ${(error as Error).message}`)
  }
  const numbers = Array.isArray(parsed) ? parsed : (parsed as { vector?: unknown } | null)?.vector
  if (!Array.isArray(numbers) || !numbers.every((each) => typeof each === 'number')) {
    throw new UsageError(`${source} is not a vector, an array of numbers like [1, 2, 3] or 1,2,3`)
  }
  return numbers
}

/** One line a point: white space within a content would break the table, in JSON it is escaped. */
function lineOf(point: Point, rank: number, asJson: boolean): string {
  if (asJson) return JSON.stringify({ id: point.id, payload: payloadOf(point) })
  return `${String(rank).padStart(3)}  ${point.id}  ${point.payload.content.replace(/\s+/g, ' ')}`
}

/** In the words of the HTTP interface. */
function payloadOf({ payload }: Point): { content_type: string; content: string } {
  return { content_type: payload.contentType, content: payload.content }
}

/** Vectors come along with every point: this keeps a long answer from filling memory. */
const pointsAtOnce = 64
