import { partitionCount } from '../base/partitions.ts'
import type { CollectionStats } from '../client/client.ts'
import type { HttpService } from '../client/http-call.ts'
import { createHttpClient } from '../client/http-client.ts'
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
    ...(collection === undefined ? {} : await figuresOfCollection(service, collection)),
    ...(hasPart && ready.ok ? await figuresOfNodes(service, collection) : {}),
  }
  if (options.json) console.log(JSON.stringify(figures))
  else for (const [name, value] of Object.entries(figures)) console.log(`${name.padEnd(32)}${value}`)
}

async function figuresOfCollection(
  service: HttpService,
  nameOrAlias: string,
): Promise<Record<string, number | string | boolean>> {
  const client = createHttpClient(service)
  const { name, dimension, hnsw } = await client.collections.get(nameOrAlias)
  const stats = await client.collection(nameOrAlias).stats()
  return {
    collection: name,
    collection_points: stats.points,
    ...(dimension === undefined ? {} : { collection_dimension: dimension }),
    collection_hnsw_m: hnsw.m,
    collection_hnsw_ef_construction: hnsw.efConstruction,
    ...figuresOfIndex(stats),
  }
}

/** Figures of a cluster whose nodes have a part of the points each. The other figures are of one node only. */
async function figuresOfNodes(
  service: HttpService,
  collection: string | undefined,
): Promise<Record<string, number | string>> {
  const { points, memoryBytes, parts } = await createHttpClient({ ...service, collection }).stats()
  if (parts === undefined) return {}
  const figures: Record<string, number | string> = {
    all_nodes_points: points,
    all_nodes_memory_bytes: sumOf(memoryBytes),
    all_nodes_disk_bytes: parts.diskBytes,
    all_nodes_partitions_missing: parts.missing.partitions,
  }
  for (const { node, stats } of parts.nodes) {
    if (stats === undefined) {
      figures[`node_${node}`] = 'does not answer'
      continue
    }
    figures[`node_${node}_points`] = stats.points
    figures[`node_${node}_memory_bytes`] = sumOf(stats.memoryBytes)
    figures[`node_${node}_disk_bytes`] = stats.diskBytes
  }
  return figures
}

function sumOf({ index, ids, attributes }: CollectionStats['memoryBytes']): number {
  return index + ids + attributes
}

/** Figures of the index; by metric, the plan and recall of searches, also with a filter. */
function figuresOfIndex(stats: CollectionStats): Record<string, number | string | boolean> {
  const { linked, waiting, tombstones, isSettling, segments, memoryBytes, graphs, searches } = stats
  const figures: Record<string, number | string | boolean> = {
    collection_linked: linked,
    collection_waiting: waiting,
    collection_tombstones: tombstones,
    collection_settling: isSettling,
    collection_segments: segments,
    collection_memory_bytes: sumOf(memoryBytes),
  }
  for (const { metric, distanceSource } of graphs)
    figures[`collection_graph_${metric}`] = distanceSource ?? 'none yet'
  for (const { metric, plan, recall, filtered } of searches) {
    figures[`collection_plan_${metric}`] = plan
    figures[`collection_recall_${metric}`] = recall ?? 'not measured yet'
    for (const bin of filtered) {
      figures[`collection_recall_${metric}_${bin.matchingShare}`] = bin.recall ?? 'not measured yet'
    }
  }
  return figures
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
