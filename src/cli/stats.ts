import { defaultCollection } from '../base/collection.ts'
import { partitionCount } from '../base/partitions.ts'
import { type HttpService, httpRequest } from '../client/http-call.ts'
import type { Environment } from './arguments.ts'
import { collectionOf, fetchFrom, type HttpOptions, httpService, textOf } from './connection.ts'

export interface StatsOptions extends HttpOptions {
  readonly json?: boolean
}

/** Prints figures of a running service from its metrics, and figures of a collection if the options name one. */
export async function showStats(options: StatsOptions, environment: Environment): Promise<void> {
  const service = httpService(options, environment)
  const ready = await fetchFrom(service, '/readyz')
  const metrics = await fetchFrom(service, '/metrics')
  const text = await textOf(metrics)
  const collection = collectionOf(options, environment)
  const own = figuresOf(text)
  const hasPart = Number(own.cluster_partitions ?? partitionCount) < partitionCount
  const figures = {
    state: ready.ok ? 'ready' : 'loading',
    ...own,
    ...(collection !== undefined || (hasPart && ready.ok)
      ? await figuresOfCollection(service, collection)
      : {}),
  }
  if (options.json) console.log(JSON.stringify(figures))
  else for (const [name, value] of Object.entries(figures)) console.log(`${name.padEnd(32)}${value}`)
}

/** The settings and the state of a collection, over all nodes of a cluster. */
async function figuresOfCollection(
  service: HttpService,
  name: string = defaultCollection,
): Promise<Record<string, unknown>> {
  const read = async (request: ReturnType<typeof httpRequest>): Promise<object> =>
    JSON.parse(await textOf(await fetchFrom(service, request)))
  const settingsOf = httpRequest('GetCollection', { name })
  const { name: collection, ...settings } = (await read(settingsOf)) as { readonly name: string }
  const { all_collections: _, ...stats } = (await read(httpRequest('GetStats', {}, name))) as {
    readonly all_collections?: unknown
  }
  const figures = figuresIn({ ...settings, ...stats, collection: undefined }, 'collection')
  return { collection, ...Object.fromEntries(figures) }
}

/** The values in an answer, by the names on the way to them; an item of a list has the name of what it is about. */
function figuresIn(value: unknown, name: string): [name: string, figure: unknown][] {
  if (value === undefined) return []
  if (typeof value !== 'object' || value === null) return [[name, value]]
  return Object.entries(value).flatMap(([key, each]) => {
    const { node, similarity, matching_share, ...rest } = Object(each) as Readonly<Record<string, unknown>>
    const about = node ?? similarity ?? matching_share
    return about === undefined ? figuresIn(each, `${name}_${key}`) : figuresIn(rest, `${name}_${about}`)
  })
}

/**
 * Selects figures from the text of /metrics: our gauges, with names without the prefix (gauges of the index for each
 * metric, of filtered searches for each plan), the memory of the process, and the sum of all requests.
 */
function figuresOf(text: string): Record<string, number | string> {
  const figures: Record<string, number | string> & { requests?: number } = {}
  for (const [, name, labels, value] of text.matchAll(/^([a-z_]+)(\{[^}]*\})? ([0-9.e+-]+)$/gm)) {
    if (name === 'process_resident_memory_bytes') figures.resident_memory_bytes = Number(value)
    else if (name === 'vicinal_requests_total') figures.requests = (figures.requests ?? 0) + Number(value)
    else if (name!.startsWith('vicinal_') && labels === undefined && !/_(sum|count)$/.test(name!)) {
      figures[name!.slice('vicinal_'.length)] = Number(value)
    } else if (name!.startsWith('vicinal_index_') || name === 'vicinal_filtered_searches') {
      const [, each] = /="(\w+)"/.exec(labels!)!
      figures[`${name!.slice('vicinal_'.length)}_${each}`] =
        name === 'vicinal_index_distance_source' ? distanceSourceWords[Number(value)]! : Number(value)
    }
  }
  return figures
}

/** Words for the values of the metric. */
const distanceSourceWords = ['no graph yet', 'codes', 'vectors', 'no graph: nothing tells the points apart']
