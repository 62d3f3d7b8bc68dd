import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Rows of signed bytes. A component is byte / 127; scaling to unit length cancels that factor. */
export interface WordNet {
  readonly description: string
  readonly dimension: number
  readonly base: Int8Array
  readonly queries: Int8Array
}

const dimension = 512
const demoData = join(import.meta.dirname, '../../../demo/data')
const baseName = 'wordnet-use512.base.i8'

/**
 * Finds WordNet glosses embedded by the Universal Sentence Encoder: the whole set at `path`, or else the 2,046 glosses
 * of the demo, of which every tenth becomes a query.
 *
 * @param path the folder of the base file and the query file, or the base file (`base` in its name, `query` in the
 * other)
 */
export function findWordNet(path: string | undefined): WordNet {
  if (path === undefined) return fromDemo()
  const basePath = basePathOf(path)
  const base = readBytes(basePath)
  const queries = readBytes(basePath.replace(/base(?=[^/]*$)/, 'query'))
  const description = `${base.length / dimension} WordNet glosses x ${dimension} (Universal Sentence Encoder)`
  return { description, dimension, base, queries }
}

/**
 * The texts of the base rows, as one JSON line each. They are next to the base file at `path`, or else those of the
 * demo, which include their attributes.
 *
 * @param path as in `findWordNet`
 */
export function wordNetLines(path: string | undefined): string[] {
  if (path === undefined) return baseOf(readLines(join(demoData, 'wordnet-glosses.jsonl')))
  const basePath = basePathOf(path)
  return readLines(basePath.replace(/base\.[^./]*$/, 'texts.jsonl'))
}

/** The texts of the query rows, as `wordNetLines`. */
export function wordNetQueryLines(path: string | undefined): string[] {
  if (path === undefined) return readLines(join(demoData, 'wordnet-glosses.jsonl')).filter(isQuery)
  return readLines(basePathOf(path).replace(/base\.[^./]*$/, 'queries.jsonl'))
}

/** Float32 rows of unit length. */
export function unitRows(bytes: Int8Array): Float32Array {
  const rows = new Float32Array(bytes.length)
  for (let from = 0; from < bytes.length; from += dimension) {
    let square = 0
    for (let index = from; index < from + dimension; index += 1) square += bytes[index]! * bytes[index]!
    const scale = 1 / Math.sqrt(square)
    for (let index = from; index < from + dimension; index += 1) rows[index] = bytes[index]! * scale
  }
  return rows
}

function fromDemo(): WordNet {
  const all = readBytes(join(demoData, 'wordnet-glosses.i8'))
  const rows = Array.from({ length: all.length / dimension }, (_, row) =>
    all.subarray(row * dimension, (row + 1) * dimension),
  )
  const base = concatenate(baseOf(rows))
  const queries = concatenate(rows.filter(isQuery))
  const description = `the demo's ${base.length / dimension} WordNet glosses x ${dimension}: too few to judge speed, name the whole set with --wordnet`
  return { description, dimension, base, queries }
}

/** The rows of the demo that do not become queries. */
function baseOf<Row>(rows: readonly Row[]): Row[] {
  return rows.filter((each, row) => !isQuery(each, row))
}

function isQuery(_: unknown, row: number): boolean {
  return row % 10 === 0
}

function concatenate(rows: readonly Int8Array[]): Int8Array {
  const joined = new Int8Array(rows.length * dimension)
  for (const [place, row] of rows.entries()) joined.set(row, place * dimension)
  return joined
}

function basePathOf(path: string): string {
  return statSync(path).isDirectory() ? join(path, baseName) : path
}

function readLines(path: string): string[] {
  return readFileSync(path, 'utf8').trimEnd().split('\n')
}

function readBytes(path: string): Int8Array {
  return new Int8Array(readFileSync(path))
}
