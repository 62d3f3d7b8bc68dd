import { existsSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { firstQueryRow, type Manifold } from './manifold.ts'
import type { ManifoldShare } from './manifold-worker.ts'
import { appendRows, writeRows } from './matrix-file.ts'
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
  /** The number of base rows, at most those of WordNet; undefined for the usual number of the set. */
  readonly rows: number | undefined
  /** The maximum number of queries. */
  readonly queries: number
  /** The base file of the whole WordNet set, or its folder; undefined for the demo's glosses. */
  readonly wordnet: string | undefined
}

export const setNames = ['wordnet', 'manifold', 'wide', 'wide-768'] as const
export type SetName = (typeof setNames)[number]

/** The sets of a run without `--sets`. */
export const usualSets: readonly SetName[] = ['wordnet', 'manifold', 'wide']

export const manifolds: Readonly<Record<Exclude<SetName, 'wordnet'>, Manifold & { readonly rows: number }>> =
  {
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
    'wide-768': {
      rows: 1_000_000,
      dimension: 768,
      latent: 24,
      hidden: 96,
      clusters: 1000,
      spread: 0.5,
      noise: 0.02,
      seed: 20_260_603,
    },
  }

export function prepareSet(name: SetName, options: DataOptions): Promise<DataSet> {
  return name === 'wordnet' ? wordNetSet(options) : manifoldSet(name, options)
}

async function manifoldSet(
  name: Exclude<SetName, 'wordnet'>,
  { cache, rows, queries }: DataOptions,
): Promise<DataSet> {
  const { rows: usual, ...manifold } = manifolds[name]
  const { dimension, latent, clusters, seed } = manifold
  const count = rows ?? usual
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

/**
 * Adds the missing rows to a file, piece by piece: a longer file begins with the rows of a shorter one, and a set may be
 * larger than memory.
 */
async function generate(path: string, manifold: Manifold, first: number, count: number): Promise<void> {
  const { dimension } = manifold
  const rowBytes = dimension * 4
  const present = existsSync(path) ? Math.floor(statSync(path).size / rowBytes) : 0
  const url = new URL('./manifold-worker.ts', import.meta.url)
  const step = Math.floor(pieceBytes / rowBytes)
  for (let at = present; at < count; at += step) {
    const length = Math.min(step, count - at)
    const rows = new Float32Array(new SharedArrayBuffer(length * rowBytes))
    await runParallel<number>(url, length, (from, to): ManifoldShare => {
      return { manifold, first: first + at + from, rows: rows.subarray(from * dimension, to * dimension) }
    })
    appendRows(path, at, rows, dimension)
  }
}

const pieceBytes = 256 * 1024 * 1024

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
    count: Math.min(rows ?? Number.POSITIVE_INFINITY, base.length / dimension),
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
