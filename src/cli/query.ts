import { readFileSync } from 'node:fs'
import { DatabaseError } from '../base/errors.ts'
import type { Metric, Point } from '../base/point.ts'
import type { VectorClient } from '../client/client.ts'
import { type ConnectionOptions, connect } from './connection.ts'
import { type Environment, UsageError } from './usage.ts'

export interface QueryOptions extends ConnectionOptions {
  readonly vector?: string
  readonly vectorFile?: string
  readonly like?: string
  readonly metric: Metric
  readonly limit: number
  readonly ef?: number
  readonly json?: boolean
}

/** Searches and prints rank, id and content of what was found. */
export async function query(options: QueryOptions, environment: Environment): Promise<void> {
  const client = connect(options, environment)
  try {
    const { metric, limit, ef } = options
    const vector = await vectorOf(options, client)
    const ids = await client.search({ vector, metric, limit, ...(ef === undefined ? {} : { ef }) })
    const points = await Promise.all(ids.map((id) => getIfThere(client, id)))
    print(
      points.filter((point) => point !== undefined),
      options.json ?? false,
    )
  } finally {
    await client.close()
  }
}

export async function getPoint(
  id: string,
  options: ConnectionOptions,
  environment: Environment,
): Promise<void> {
  const client = connect(options, environment)
  try {
    const { vector, payload } = await client.get(id)
    console.log(JSON.stringify({ id, vector: Array.from(vector), payload }))
  } finally {
    await client.close()
  }
}

export async function deletePoint(
  id: string,
  options: ConnectionOptions,
  environment: Environment,
): Promise<void> {
  const client = connect(options, environment)
  try {
    await client.delete(id)
  } finally {
    await client.close()
  }
}

async function vectorOf(options: QueryOptions, client: VectorClient): Promise<ArrayLike<number>> {
  const { vector, vectorFile, like } = options
  if ([vector, vectorFile, like].filter((each) => each !== undefined).length !== 1) {
    throw new UsageError('give the query as one of --vector, --vector-file and --like')
  }
  if (like !== undefined) return (await client.get(like)).vector
  const source = vector === undefined ? vectorFile! : '--vector'
  let parsed: unknown
  try {
    parsed = JSON.parse(vector ?? readFileSync(vectorFile!, 'utf8'))
  } catch (error) {
    throw new UsageError(`${source}: ${(error as Error).message}`)
  }
  const numbers = Array.isArray(parsed) ? parsed : (parsed as { vector?: unknown } | null)?.vector
  if (!Array.isArray(numbers) || !numbers.every((each) => typeof each === 'number')) {
    throw new UsageError(`${source} is not a JSON array of numbers`)
  }
  return numbers
}

/** A point can be deleted between the search and the look at it. */
async function getIfThere(client: VectorClient, id: string): Promise<Point | undefined> {
  try {
    return await client.get(id)
  } catch (error) {
    if (error instanceof DatabaseError && error.reason === 'not_found') return undefined
    throw error
  }
}

function print(points: readonly Point[], asJson: boolean): void {
  if (asJson) {
    console.log(JSON.stringify(points.map(({ id, payload }) => ({ id, ...payload }))))
    return
  }
  for (const [index, { id, payload }] of points.entries()) {
    console.log(`${String(index + 1).padStart(3)}  ${id}  ${payload.content}`)
  }
}
