import type { SearchInput } from '../api/points.ts'
import type { JsonObject, JsonValue } from '../api/types.ts'
import { hasExamples, isScored } from './answer-shape.ts'
import { filterMessage } from './filter-message.ts'
import { isEmptyFilter, isObject } from './filters.ts'
import { vectorPreview } from './vector-text.ts'

/** Code that sends a query, in several languages. */

export interface QueryToShow
  extends Pick<SearchInput, 'near' | 'words' | 'balance' | 'metric' | 'limit' | 'ef' | 'filter' | 'shape'> {
  readonly url: string
  readonly grpcPort: number
  readonly collection: string
  readonly needsKey: boolean
}

export const languages = [
  ['curl', 'curl'],
  ['typescript', 'TypeScript'],
  ['python', 'Python'],
  ['grpc', 'gRPC'],
] as const
export type Language = (typeof languages)[number][0]

/** @param full with all numbers of the vector, for copying; otherwise with a few, for display */
export function snippet(language: Language, query: QueryToShow, full: boolean): string {
  return writers[language](query, (vector) => (full ? JSON.stringify(vector) : vectorPreview(vector)))
}

type VectorText = (vector: readonly number[]) => string
type Field = readonly [name: string, json: string]

const writers: Readonly<Record<Language, (query: QueryToShow, text: VectorText) => string>> = {
  curl: (query, text) =>
    [
      `curl -s ${query.url}${path(query)}/search \\`,
      ...(query.needsKey ? [`  -H "authorization: $KEY" \\`] : []),
      `  -H 'content-type: application/json' -d '{`,
      `${inner(fields(query, text), '    ').replaceAll("'", "'\\''")}`,
      `  }'`,
    ].join('\n'),
  typescript: (query, text) => {
    const filter = scriptText(query.filter)
    const shape = scriptShape(query.shape)
    const used = [filter, ...shape].join()
    const classes = ['DateTime', 'GeoPoint'].filter((name) => used.includes(`new ${name}(`))
    return [
      `import { ${['createHttpClient', ...classes].join(', ')} } from 'vicinal-client'`,
      ``,
      `const client = createHttpClient({`,
      `  baseUrl: ${JSON.stringify(query.url)},`,
      ...(query.collection === 'default' ? [] : [`  collection: ${JSON.stringify(query.collection)},`]),
      ...(query.needsKey ? [`  apiKey: process.env.KEY!,`] : []),
      `})`,
      `const { hits } = await client.searchHits({`,
      ...(query.near === undefined ? [] : [`  ${scriptNear(query.near, text)},`]),
      ...(isNear(query) ? [`  metric: ${JSON.stringify(query.metric)},`] : []),
      ...(query.words === '' ? [] : [`  words: ${JSON.stringify(query.words)},`]),
      ...(isHybrid(query) ? [`  balance: ${query.balance},`] : []),
      `  limit: ${query.limit},`,
      ...(query.ef === undefined ? [] : [`  ef: ${query.ef},`]),
      ...(isEmptyFilter(query.filter) ? [] : [`  filter: ${filter},`]),
      ...shape,
      `  include: { ${included(query)}: true, payload: true },`,
      `})`,
      `for (const { id, ${figure(query)}, payload } of hits) console.log(id, ${figure(query)}, payload?.content)`,
    ].join('\n')
  },
  python: (query, text) =>
    [
      ...(query.needsKey ? [`import os`] : []),
      `from vicinal import ${pythonNames(query).join(', ')}`,
      ``,
      `client = Vicinal(`,
      `    ${JSON.stringify(query.url)},`,
      ...(query.collection === 'default' ? [] : [`    collection=${JSON.stringify(query.collection)},`]),
      ...(query.needsKey ? [`    api_key=os.environ["KEY"],`] : []),
      `)`,
      `result = client.search(`,
      ...(query.near === undefined ? [] : [`    ${pythonNear(query.near, text)},`]),
      ...(isNear(query) ? [`    metric=${JSON.stringify(query.metric)},`] : []),
      ...(query.words === '' ? [] : [`    words=${JSON.stringify(query.words)},`]),
      ...(isHybrid(query) ? [`    balance=${query.balance},`] : []),
      `    limit=${query.limit},`,
      ...(query.ef === undefined ? [] : [`    ef=${query.ef},`]),
      ...(isEmptyFilter(query.filter) ? [] : [`    filter=${pythonLiterals(JSON.stringify(query.filter))},`]),
      ...pythonShape(query.shape),
      `)`,
      `for hit in result.hits:`,
      `    print(hit.id, hit.${figure(query)}, hit.content)`,
    ].join('\n'),
  grpc: (query, text) =>
    [
      `grpcurl -plaintext -H "authorization: $KEY" \\`,
      ...(query.collection === 'default' ? [] : [`  -H 'collection: ${query.collection}' \\`]),
      `  -d '{`,
      inner(grpcFields(query, text), '    ').replaceAll("'", "'\\''"),
      `  }' ${new URL(query.url).hostname}:${query.grpcPort} vectordb.VectorDB/SearchPoints`,
    ].join('\n'),
}

function path({ collection }: QueryToShow): string {
  return collection === 'default' ? '/points' : `/collections/${encodeURIComponent(collection)}/points`
}

function fields(query: QueryToShow, text: VectorText): readonly Field[] {
  const { near } = query
  return [
    ...(near === undefined
      ? []
      : [('vector' in near ? ['vector', text(near.vector)] : nearField(near)) satisfies Field]),
    ...metricField(query),
    ...wordFields(query),
    ['limit', String(query.limit)],
    ...(query.ef === undefined ? [] : [['ef', String(query.ef)] as const]),
    ...(isEmptyFilter(query.filter) ? [] : [['filter', JSON.stringify(query.filter)] as const]),
    ...Object.entries(query.shape).map(([name, value]) => [name, JSON.stringify(value)] as const),
    ['include', `{"${included(query)}": true, "payload": true}`],
  ]
}

/** Whether there is something to search near, and so distances. */
function isNear({ near, shape }: QueryToShow): boolean {
  return near !== undefined || hasExamples(shape)
}

function isHybrid(query: QueryToShow): boolean {
  return isNear(query) && query.words !== ''
}

function metricField(query: QueryToShow): readonly Field[] {
  return isNear(query) ? [['similarity', JSON.stringify(query.metric)]] : []
}

function wordFields(query: QueryToShow): readonly Field[] {
  return [
    ...(query.words === '' ? [] : [['words', JSON.stringify(query.words)] as const]),
    ...(isHybrid(query) ? [['balance', String(query.balance)] as const] : []),
  ]
}

/** What tells how good a hit is. */
function figure({ words, shape }: QueryToShow): 'distance' | 'score' {
  return isScored(words, shape) ? 'score' : 'distance'
}

function included(query: QueryToShow): 'distance' | 'scores' {
  return figure(query) === 'distance' ? 'distance' : 'scores'
}

function pythonNear(near: NonNullable<QueryToShow['near']>, text: VectorText): string {
  if ('vector' in near) return text(near.vector)
  return 'id' in near ? JSON.stringify(near.id) : `Text(${JSON.stringify(near.text)})`
}

function nearField(near: { readonly id: string } | { readonly text: string }): Field {
  return 'id' in near ? ['id', JSON.stringify(near.id)] : ['text', JSON.stringify(near.text)]
}

/** The fields of the protobuf message in its JSON form. */
function grpcFields(query: QueryToShow, text: VectorText): readonly Field[] {
  const { near } = query
  const nearFields: readonly Field[] =
    near === undefined
      ? []
      : [
          'vector' in near
            ? ['query_vector', `{"values": ${text(near.vector)}}`]
            : 'id' in near
              ? ['near_id', JSON.stringify(idMessage(near.id))]
              : nearField(near),
        ]
  return [
    ...nearFields,
    ...metricField(query),
    ...wordFields(query),
    ['limit', String(query.limit)],
    ...(query.ef === undefined ? [] : [['ef', String(query.ef)] as const]),
    ...(isEmptyFilter(query.filter)
      ? []
      : [['filter', JSON.stringify(filterMessage(query.filter))] as const]),
    ...Object.entries(query.shape).map(
      ([name, value]) => [name, JSON.stringify(shapeMessages[name]?.(value) ?? value)] as const,
    ),
    ['include', `{"${included(query)}": true, "payload": true}`],
  ]
}

/** The fields of a shape that are not the same in protobuf. */
const shapeMessages: Readonly<Record<string, (value: JsonValue) => unknown>> = {
  like: (ids) => (ids as readonly string[]).map(idMessage),
  unlike: (ids) => (ids as readonly string[]).map(idMessage),
  boost: (boosts) =>
    (boosts as readonly JsonObject[]).map(({ filter, ...rest }) =>
      isObject(filter) ? { ...rest, filter: filterMessage(filter) } : rest,
    ),
  on_error: (rule) => `RERANK_ERROR_${String(rule).toUpperCase()}`,
  statistics: (value) => filterMessage((value as { readonly filter: JsonObject }).filter),
}

function idMessage(id: string): JsonObject {
  return { id: { value: id } }
}

/** The fields of a shape in TypeScript, a line each. */
function scriptShape(shape: JsonObject): readonly string[] {
  return Object.entries(shape).map(([name, value]) => {
    const written = name === 'boost' ? (value as readonly JsonObject[]).map(scriptBoost) : value
    return `  ${camelCase(name)}: ${scriptText(written)},`
  })
}

function scriptBoost({ recent, ...rest }: JsonObject): JsonObject {
  if (!isObject(recent)) return rest
  const named = Object.entries(recent).map(([name, value]) => [camelCase(name), value] as const)
  return { ...rest, recent: Object.fromEntries(named) }
}

function camelCase(name: string): string {
  return name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase())
}

/** What the Python program imports. */
function pythonNames({ near, shape }: QueryToShow): readonly string[] {
  const boosts = (shape.boost ?? []) as readonly JsonObject[]
  return [
    ...(boosts.length === 0 ? [] : ['Boost']),
    ...(shape.group_by === undefined ? [] : ['GroupBy']),
    ...(boosts.some(({ recent }) => recent !== undefined) ? ['Recent'] : []),
    ...(near !== undefined && 'text' in near ? ['Text'] : []),
    'Vicinal',
  ]
}

/** The fields of a shape in Python, a line each. */
function pythonShape(shape: JsonObject): readonly string[] {
  return Object.entries(shape).map(([name, value]) => {
    const text = pythonWriters[name]?.(value as never) ?? pythonLiterals(JSON.stringify(value))
    return `    ${name}=${text},`
  })
}

const pythonWriters: Readonly<Record<string, (value: never) => string>> = {
  group_by: ({ path, size }: JsonObject) => `GroupBy(${JSON.stringify(path)}, ${size})`,
  statistics: ({ filter }: JsonObject) => pythonLiterals(JSON.stringify(filter)),
  boost: (boosts: readonly JsonObject[]) => `[${boosts.map(pythonBoost).join(', ')}]`,
}

function pythonBoost({ weight, filter, recent }: JsonObject): string {
  const { path, half_life } = isObject(recent) ? recent : {}
  const what =
    recent === undefined
      ? `filter=${pythonLiterals(JSON.stringify(filter))}`
      : `recent=Recent(${JSON.stringify(path)}, ${JSON.stringify(half_life)})`
  return `Boost(${JSON.stringify(weight)}, ${what})`
}

function inner(list: readonly Field[], indent: string): string {
  return list.map(([name, json]) => `${indent}"${name}": ${json}`).join(',\n')
}

function scriptNear(near: NonNullable<QueryToShow['near']>, text: VectorText): string {
  if ('vector' in near) return `vector: ${text(near.vector)}`
  return 'id' in near ? `id: ${JSON.stringify(near.id)}` : `text: ${JSON.stringify(near.text)}`
}

/** A value of a filter in TypeScript: what JSON has to tag is an object of a class there. */
function scriptText(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(scriptText).join(', ')}]`
  if (!isObject(value)) return JSON.stringify(value)
  if (typeof value.$date === 'string') return scriptMoment(value.$date)
  if (isObject(value.$geo)) return `new GeoPoint(${value.$geo.lat}, ${value.$geo.lon})`
  const fields = Object.entries(value).map(([name, inner]) => {
    const key = /^[\w$]+$/.test(name) && !/^\d/.test(name) ? name : JSON.stringify(name)
    return `${key}: ${scriptText(inner)}`
  })
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`
}

/** Date holds milliseconds, DateTime microseconds since 1970. */
function scriptMoment(text: string): string {
  const [, digits = ''] = /\.(\d+)/.exec(text) ?? []
  if (digits.length <= 3) return `new Date(${JSON.stringify(text)})`
  const wholeMs = Date.parse(text.replace(/\.\d+/, ''))
  return `new DateTime(${wholeMs * 1000 + Number(digits.padEnd(6, '0').slice(0, 6))})`
}

/** Replaces true, false and null outside strings by their Python names. */
function pythonLiterals(text: string): string {
  const words: Readonly<Record<string, string>> = { true: 'True', false: 'False', null: 'None' }
  return text.replace(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (found) => words[found] ?? found)
}
