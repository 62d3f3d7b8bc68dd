import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Metric } from '../../../src/base/point.ts'
import type { DataSet } from '../../shared/data/data-set.ts'
import type { Description } from '../contenders/contender.ts'
import type { Options } from '../options.ts'
import { ContenderClient } from './contender-client.ts'
import type { BuildQuestion, Built } from './messages.ts'

export interface Build extends Built {
  readonly threads: number
}

/** A contender with a built index, ready to search. */
export interface Ready {
  readonly client: ContenderClient
  readonly description: Description
  /** One build per number of threads. The last one built the index that is searched. */
  readonly builds: readonly Build[]
  /** Whether the index came from an earlier run. */
  readonly reused: boolean
}

export type BuildOptions = Pick<Options, 'm' | 'efConstruction' | 'buildThreads' | 'cache' | 'reuse'> & {
  /** The file with the attributes of the rows, for filtered searches. */
  readonly attributesPath?: string | undefined
}

/**
 * Builds once per number of threads, each time in a new process, and leaves the last process running. With `reuse`,
 * loads the index of an earlier run with the same settings instead.
 *
 * @throws NotOffered if the contender does not support the metric
 */
export async function prepareContender(
  name: string,
  set: DataSet,
  metric: Metric,
  options: BuildOptions,
): Promise<Ready> {
  const data = `${set.name}-${set.count}-${metric}${options.attributesPath === undefined ? '' : '-attributes'}`
  const folder = join(options.cache, 'indexes', data, name)
  const earlier = options.reuse ? await loadEarlier(name, folder, set, metric, options) : undefined
  if (earlier !== undefined) return earlier
  const builds: Build[] = []
  for (const threads of options.buildThreads) {
    const [client, description] = await ContenderClient.open(name, folder, {
      fromBefore: false,
      keep: options.reuse,
    })
    refuseMetric(client, description, metric)
    const isLast = description.buildThreads === 'one' || threads === options.buildThreads.at(-1)
    try {
      const built = await client.ask({ kind: 'build', ...question(set, metric, options, threads) })
      builds.push({ threads: description.buildThreads === 'one' ? 1 : threads, ...built })
      if (!isLast) await client.close()
    } catch (error) {
      client.kill()
      throw error
    }
    if (!isLast) continue
    if (options.reuse && (await client.ask({ kind: 'save' }))) {
      writeFileSync(recordPath(folder), JSON.stringify({ key: keyOf(description, set, options), builds }))
    }
    return { client, description, builds, reused: false }
  }
  throw new Error('a build needs at least one number of threads')
}

/** The contender does not support what was to be measured. This is not a failure and does not end the run. */
export class NotOffered extends Error {}

function refuseMetric(client: ContenderClient, { distanceMetrics }: Description, metric: Metric): void {
  if (distanceMetrics.includes(metric)) return
  client.kill()
  throw new NotOffered(`${client.name} is measured for ${distanceMetrics.join(', ')}, not ${metric}`)
}

async function loadEarlier(
  name: string,
  folder: string,
  set: DataSet,
  metric: Metric,
  options: BuildOptions,
): Promise<Ready | undefined> {
  if (!existsSync(recordPath(folder))) return undefined
  const record = JSON.parse(readFileSync(recordPath(folder), 'utf8')) as { key: string; builds: Build[] }
  const [client, description] = await ContenderClient.open(name, folder, { fromBefore: true, keep: true })
  if (record.key !== keyOf(description, set, options)) {
    await client.close()
    return undefined
  }
  await client.ask({ kind: 'load', ...question(set, metric, options, record.builds.at(-1)!.threads) })
  return { client, description, builds: record.builds, reused: true }
}

function question(set: DataSet, metric: Metric, options: BuildOptions, threads: number): BuildQuestion {
  const { basePath, queryPath, count, dimension, queryCount } = set
  const { m, efConstruction, attributesPath } = options
  const data = { basePath, queryPath, count, dimension, queryCount, attributesPath }
  return { ...data, metric, m, efConstruction, threads }
}

function keyOf(
  description: Description,
  set: DataSet,
  { m, efConstruction, buildThreads, attributesPath }: BuildOptions,
): string {
  const attributes = attributesPath === undefined ? [] : [basename(attributesPath)]
  return JSON.stringify([
    description,
    set.description,
    set.count,
    m,
    efConstruction,
    buildThreads,
    ...attributes,
  ])
}

function recordPath(folder: string): string {
  return join(folder, 'built.json')
}
