import { readFileSync } from 'node:fs'
import type { Metric } from '../base/point.ts'
import type { Hit, PointsClient, Query } from '../client/client.ts'
import { fieldsJson } from '../client/http-bodies.ts'
import { type Environment, UsageError, vectorIn } from './arguments.ts'
import { type ConnectionOptions, collectionOf, withClient } from './connection.ts'
import { checkReadable } from './files.ts'
import { filterIn } from './points.ts'
import { type ReaderOptions, readItems } from './readers.ts'

export interface QueryOptions extends ConnectionOptions, ReaderOptions {
  readonly vector?: string
  readonly vectorFile?: string
  readonly row?: number
  readonly like?: string
  readonly text?: string
  readonly words?: string
  readonly balance?: number
  readonly metric: Metric
  readonly limit: number
  readonly ef?: number
  readonly filter?: string
  readonly exact?: boolean
  readonly maxDistance?: number
  readonly profile?: boolean
  readonly json?: boolean
}

/** Searches, and prints rank, id and content of each result. */
export async function query(options: QueryOptions, environment: Environment): Promise<void> {
  checkSources(options)
  const filter = filterIn(options)
  await withClient(options, environment, async (client) => {
    const { metric, limit, ef, exact, maxDistance, words, balance, profile = false } = options
    const near = await nearOf(options, client)
    const include = {
      ...(near !== undefined && { distance: true }),
      payload: true,
      ...(words !== undefined && { scores: true }),
    }
    const asked = { ...near, metric, limit, words, balance, ef, filter, exact, maxDistance, include, profile }
    const answer = await client.searchHits(asked)
    if (answer.hits.length === 0) console.error(nothingFound(options, environment))
    for (const [index, hit] of answer.hits.entries()) {
      console.log(lineOf(hit, index + 1, options.json ?? false))
    }
    if (answer.profile !== undefined) console.error(JSON.stringify(answer.profile, undefined, 2))
  })
}

function nothingFound(options: QueryOptions, environment: Environment): string {
  const collection = collectionOf(options, environment)
  const place = collection === undefined ? 'the database' : `the collection ${collection}`
  if (options.filter !== undefined || options.maxDistance !== undefined) return `nothing found in ${place}`
  return `nothing found: ${place} is empty`
}

/** The vector or text to search near; undefined for words alone. */
async function nearOf(
  options: QueryOptions,
  client: PointsClient,
): Promise<Pick<Query, 'vector' | 'text'> | undefined> {
  const { text, like, vector, vectorFile, words } = options
  if (words !== undefined && (text ?? like ?? vector ?? vectorFile) === undefined) return undefined
  if (text !== undefined) return { text }
  return { vector: like === undefined ? await vectorOf(options) : (await client.get(like)).vector }
}

function checkSources({ vector, vectorFile, like, text, row, words }: QueryOptions): void {
  const near = [vector, vectorFile, like, text].filter((each) => each !== undefined).length
  if (near > 1 || (near === 0 && words === undefined)) {
    throw new UsageError('give the query as one of --vector, --vector-file, --like and --text, or as --words')
  }
  if (row !== undefined && vectorFile === undefined) throw new UsageError('--row needs --vector-file')
}

async function vectorOf(options: QueryOptions): Promise<ArrayLike<number>> {
  const { vector, vectorFile, row } = options
  if (vectorFile !== undefined) checkReadable(vectorFile, '--vector-file')
  if (row !== undefined) return vectorOfRow(vectorFile!, row, options)
  if (vector !== undefined) return vectorIn(vector, '--vector')
  return vectorIn(readFileSync(vectorFile!, 'utf8'), vectorFile!)
}

async function vectorOfRow(file: string, row: number, options: QueryOptions): Promise<ArrayLike<number>> {
  let at = 0
  for await (const { where, point, fault } of readItems(file, { ...options, vectorsOnly: true })) {
    if (at === row && point !== undefined) return point.vector
    if (at === row) throw new Error(`${where}: ${fault}`)
    at += 1
  }
  throw new UsageError(`--row: ${file} has rows 0 to ${at - 1}, not ${row}`)
}

/** Formats a point as one line. White space in a content would break the table; in JSON it is escaped. */
function lineOf({ id, payload, ...figures }: Hit, rank: number, asJson: boolean): string {
  if (asJson) return JSON.stringify({ id, ...figures, payload: payload && fieldsJson(payload) })
  return `${String(rank).padStart(3)}  ${id}  ${payload?.content?.replace(/\s+/g, ' ')}`
}
