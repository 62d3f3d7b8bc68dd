import type { HttpService } from '../client/http-call.ts'
import { refusalOf } from '../client/http-call.ts'
import { createHttpClient } from '../client/http-client.ts'
import type { CollectionStats } from '../client/inspection.ts'
import { collectionOf, fetchFrom, type HttpOptions, httpService } from './connection.ts'
import type { Environment } from './usage.ts'

export interface StatsOptions extends HttpOptions {
  readonly json?: boolean
}

/** Figures of a running service, from its metrics, and of a collection where one is named. */
export async function showStats(options: StatsOptions, environment: Environment): Promise<void> {
  const service = httpService(options, environment)
  const ready = await fetchFrom(service, '/readyz')
  const metrics = await fetchFrom(service, '/metrics')
  const text = await metrics.text()
  if (!metrics.ok) throw new Error(`${metrics.url} answered ${metrics.status}: ${refusalOf(metrics, text)}`)
  const collection = collectionOf(options, environment)
  const figures = {
    state: ready.ok ? 'ready' : 'loading',
    ...figuresOf(text),
    ...(collection === undefined ? {} : await figuresOfCollection(service, collection)),
  }
  if (options.json) console.log(JSON.stringify(figures))
  else for (const [name, value] of Object.entries(figures)) console.log(`${name.padEnd(32)}${value}`)
}

async function figuresOfCollection(
  service: HttpService,
  nameOrAlias: string,
): Promise<Record<string, number | string | boolean>> {
  const client = createHttpClient(service)
  const { name, points, dimension, hnsw } = await client.collections.get(nameOrAlias)
  const stats = await client.collection(nameOrAlias).stats()
  return {
    collection: name,
    collection_points: points,
    ...(dimension === undefined ? {} : { collection_dimension: dimension }),
    collection_hnsw_m: hnsw.m,
    collection_hnsw_ef_construction: hnsw.efConstruction,
    ...figuresOfIndex(stats),
  }
}

/** By metric, how searches are answered and with what recall, also with a filter. */
function figuresOfIndex(stats: CollectionStats): Record<string, number | string | boolean> {
  const { linked, waiting, tombstones, isSettling, segments, memoryBytes, graphs, searches } = stats
  const figures: Record<string, number | string | boolean> = {
    collection_linked: linked,
    collection_waiting: waiting,
    collection_tombstones: tombstones,
    collection_settling: isSettling,
    collection_segments: segments,
    collection_memory_bytes: memoryBytes.index + memoryBytes.ids + memoryBytes.attributes,
  }
  for (const { metric, measuredOn } of graphs)
    figures[`collection_graph_${metric}`] = measuredOn ?? 'none yet'
  for (const { metric, plan, recall, filtered } of searches) {
    figures[`collection_plan_${metric}`] = plan
    figures[`collection_recall_${metric}`] = recall ?? 'not measured yet'
    for (const bin of filtered) {
      figures[`collection_recall_${metric}_${bin.matchingShare}`] = bin.recall ?? 'not measured yet'
    }
  }
  return figures
}

/** Our own gauges by their names without the prefix, those of the index for each metric, the process's memory, and requests summed. */
function figuresOf(text: string): Record<string, number | string> {
  const figures: Record<string, number | string> & { requests?: number } = {}
  for (const [, name, labels, value] of text.matchAll(/^([a-z_]+)(\{[^}]*\})? ([0-9.e+-]+)$/gm)) {
    if (name === 'process_resident_memory_bytes') figures.resident_memory_bytes = Number(value)
    else if (name === 'vicinal_requests_total') figures.requests = (figures.requests ?? 0) + Number(value)
    else if (name!.startsWith('vicinal_') && labels === undefined && !/_(sum|count)$/.test(name!)) {
      figures[name!.slice('vicinal_'.length)] = Number(value)
    } else if (name!.startsWith('vicinal_index_')) {
      const [, metric] = /="(\w+)"/.exec(labels!)!
      figures[`${name!.slice('vicinal_'.length)}_${metric}`] =
        name === 'vicinal_index_measured_on' ? measuredOnWords[Number(value)]! : Number(value)
    }
  }
  return figures
}

/** By the numbers of the metric. */
const measuredOnWords = ['no graph yet', 'codes', 'vectors', 'no graph: nothing tells the points apart']
