import type { CollectionInfo, HnswSettings } from '../base/collection.ts'
import { aligned } from './aligned.ts'
import { withClient } from './clients.ts'
import type { ConnectionOptions } from './connection.ts'
import { type Environment, UsageError } from './usage.ts'

export interface ListOptions extends ConnectionOptions {
  readonly json?: boolean
}

export interface CreateOptions extends ConnectionOptions {
  readonly dimension?: number
  readonly hnswM?: number
  readonly hnswEfConstruction?: number
}

export interface DeleteOptions extends ConnectionOptions {
  readonly yes?: boolean
}

/** Prints all collections, as a table or as one JSON object per line. */
export async function listCollections(options: ListOptions, environment: Environment): Promise<void> {
  const collections = await withClient(options, environment, (client) => client.collections.list())
  const lines = options.json ? collections.map(jsonOf) : tableOf(collections)
  for (const line of lines) console.log(line)
}

export async function createCollection(
  name: string,
  options: CreateOptions,
  environment: Environment,
): Promise<void> {
  const { dimension, hnswM: m, hnswEfConstruction: efConstruction } = options
  const hnsw: HnswSettings = { m, efConstruction }
  const { created } = await withClient(options, environment, (client) =>
    client.collections.put(name, { dimension, hnsw }),
  )
  console.log(created ? `created ${name}` : `${name} already exists with these settings`)
}

/** Deletes a collection. @throws UsageError without `yes`, because the points cannot be restored */
export async function deleteCollection(
  name: string,
  options: DeleteOptions,
  environment: Environment,
): Promise<void> {
  if (!options.yes) {
    throw new UsageError(`this would delete the collection ${name} with all its points: confirm with --yes`)
  }
  await withClient(options, environment, (client) => client.collections.delete(name))
  console.log(`deleted ${name}`)
}

export async function setAlias(
  alias: string,
  name: string,
  options: ConnectionOptions,
  environment: Environment,
): Promise<void> {
  await withClient(options, environment, (client) =>
    client.collections.setAliases({ set: { [alias]: name } }),
  )
  console.log(`${alias} refers to ${name}`)
}

export async function removeAlias(
  alias: string,
  options: ConnectionOptions,
  environment: Environment,
): Promise<void> {
  await withClient(options, environment, (client) => client.collections.setAliases({ remove: [alias] }))
  console.log(`removed ${alias}`)
}

/** Formats a collection with the names of the HTTP interface. */
function jsonOf({ hnsw, ...rest }: CollectionInfo): string {
  return JSON.stringify({ ...rest, hnsw: { m: hnsw.m, ef_construction: hnsw.efConstruction } })
}

function tableOf(collections: readonly CollectionInfo[]): string[] {
  return aligned([
    ['name', 'points', 'dimension', 'm', 'ef_construction', 'aliases'],
    ...collections.map(({ name, points, dimension, hnsw, aliases }) => [
      name,
      String(points),
      dimension === undefined ? '-' : String(dimension),
      String(hnsw.m),
      String(hnsw.efConstruction),
      aliases.join(', '),
    ]),
  ])
}
