import { existsSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { firstQueryRow, type Manifold } from './manifold.ts'
import type { ManifoldShare } from './manifold-worker.ts'
import { writeRows } from './matrix-file.ts'
import { runParallel } from './parallel.ts'
import { findWordNet, unitRows } from './wordnet.ts'

/** Base vectors to build from, and queries that are not among them, as files. Every vector has unit length. */
export interface DataSet {
  readonly name: string
  readonly description: string
  readonly folder: string
  readonly basePath: string
  readonly queryPath: string
  readonly dimension: number
  readonly count: number
  readonly queryCount: number
}

export interface DataOptions {
  readonly cache: string
  /** The maximum number of base rows. */
  readonly rows: number
  /** The maximum number of queries. */
  readonly queries: number
  /** The base file of the whole WordNet set, or its folder; undefined for the demo's glosses. */
  readonly wordnet: string | undefined
}

export const setNames = ['wordnet', 'manifold', 'wide'] as const
export type SetName = (typeof setNames)[number]

const manifolds: Readonly<Record<Exclude<SetName, 'wordnet'>, Manifold & { readonly rows: number }>> = {
  manifold: {
    rows: 1_000_000,
    dimension: 128,
    latent: 16,
    hidden: 64,
    clusters: 256,
    spread: 0.5,
    noise: 0.02,
    seed: 20_260_601,
  },
  wide: {
    rows: 100_000,
    dimension: 1536,
    latent: 32,
    hidden: 128,
    clusters: 100,
    spread: 0.5,
    noise: 0.02,
    seed: 20_260_602,
  },
}

export function prepareSet(name: SetName, options: DataOptions): Promise<DataSet> {
  return name === 'wordnet' ? wordNetSet(options) : manifoldSet(name, options)
}

/** @param rows a different number of rows than usual, for the growth curve */
export async function manifoldSet(
  name: Exclude<SetName, 'wordnet'>,
  { cache, rows, queries }: DataOptions,
  usual: number = manifolds[name].rows,
): Promise<DataSet> {
  const manifold = manifolds[name]
  const { dimension, latent, clusters, seed } = manifold
  const count = Math.min(rows, usual)
  const folder = folderOf(cache, `${name}-${seed}`)
  const set = {
    name,
    description: `${count} x ${dimension}, ${clusters} clusters on a manifold of ${latent} dimensions, seed ${seed}`,
    folder,
    basePath: join(folder, 'base.f32'),
    queryPath: join(folder, 'queries.f32'),
    dimension,
    count,
    queryCount: Math.min(queries, queriesMax),
  }
  await generate(set.basePath, manifold, 0, count)
  await generate(set.queryPath, manifold, firstQueryRow, queriesMax)
  return set
}

const queriesMax = 1000

/** Writes a file unless it already exists with enough rows: a longer file begins with the rows of a shorter one. */
async function generate(path: string, manifold: Manifold, first: number, count: number): Promise<void> {
  const { dimension } = manifold
  if (existsSync(path) && statSync(path).size >= count * dimension * 4) return
  const rows = new Float32Array(new SharedArrayBuffer(count * dimension * 4))
  const url = new URL('./manifold-worker.ts', import.meta.url)
  await runParallel<number>(url, count, (from, to): ManifoldShare => {
    return { manifold, first: first + from, rows: rows.subarray(from * dimension, to * dimension) }
  })
  writeRows(path, rows)
}

async function wordNetSet({ cache, rows, queries, wordnet }: DataOptions): Promise<DataSet> {
  const source = findWordNet(wordnet)
  const base = unitRows(source.base)
  const held = unitRows(source.queries)
  const { dimension } = source
  const folder = folderOf(cache, `wordnet-${base.length / dimension}`)
  const set = {
    name: 'wordnet',
    description: source.description,
    folder,
    basePath: join(folder, 'base.f32'),
    queryPath: join(folder, 'queries.f32'),
    dimension,
    count: Math.min(rows, base.length / dimension),
    queryCount: Math.min(queries, held.length / dimension),
  }
  if (!existsSync(set.basePath)) writeRows(set.basePath, base)
  if (!existsSync(set.queryPath)) writeRows(set.queryPath, held)
  return set
}

function folderOf(cache: string, name: string): string {
  const folder = join(cache, name)
  mkdirSync(folder, { recursive: true })
  return folder
}
