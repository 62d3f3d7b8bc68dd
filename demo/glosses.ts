import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PointToInsert } from '../src/client/client.ts'
import type { AttributesInput } from '../src/client/values.ts'

/** The data of the demos: about two thousand WordNet glosses with their embeddings, and questions about them. */

export const dimension = 512

export interface Question {
  /** The name of the file in demo/queries that holds its vector. */
  readonly name: string
  readonly text: string
}

export function glosses(): PointToInsert[] {
  const bytes = new Int8Array(readFileSync(join(here, 'data/wordnet-glosses.i8')))
  return linesOf('data/wordnet-glosses.jsonl').map((line, row) => {
    const { text, attributes } = JSON.parse(line) as { text: string; attributes: AttributesInput }
    const vector = unit(bytes.subarray(row * dimension, (row + 1) * dimension))
    return { vector, payload: { contentType: 'Text', content: text, attributes } }
  })
}

export function questions(): Question[] {
  return linesOf('data/queries.jsonl').map((line) => JSON.parse(line) as Question)
}

/** The vector of a question. */
export function vectorOf(name: string): readonly number[] {
  const text = readFileSync(join(here, `queries/${name}.json`), 'utf8')
  return (JSON.parse(text) as { readonly vector: readonly number[] }).vector
}

function unit(row: Int8Array): Float32Array {
  const norm = Math.sqrt(row.reduce((sum, each) => sum + each * each, 0))
  return Float32Array.from(row, (each) => each / norm)
}

function linesOf(name: string): string[] {
  return readFileSync(join(here, name), 'utf8').trim().split('\n')
}

/** The first 100 characters of a text. */
export function shortened(text: string): string {
  return text.length > 100 ? `${text.slice(0, 100)}…` : text
}

export function say(text: string): void {
  console.log(text)
}

const here = import.meta.dirname
