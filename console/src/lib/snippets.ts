import type { JsonObject } from '../api/types.ts'
import type { Metric } from './distance.ts'
import { filterMessage } from './filter-message.ts'
import { isEmptyFilter } from './filters.ts'
import { vectorPreview } from './vector-text.ts'

/** Code that sends a query, in several languages. */

export interface QueryToShow {
  readonly url: string
  readonly grpcPort: number
  readonly collection: string
  readonly needsKey: boolean
  readonly near: { readonly id: string } | { readonly vector: readonly number[] } | { readonly text: string }
  readonly metric: Metric
  readonly limit: number
  readonly ef: number | undefined
  readonly filter: JsonObject
  readonly withPayload: boolean
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
  typescript: (query, text) =>
    [
      `const response = await fetch('${query.url}${path(query)}/search', {`,
      `  method: 'POST',`,
      `  headers: { 'content-type': 'application/json'${query.needsKey ? ', authorization: process.env.KEY!' : ''} },`,
      `  body: JSON.stringify({`,
      inner(fields(query, text), '    '),
      `  }),`,
      `})`,
      `if (!response.ok) throw new Error(await response.text())`,
      `const { ${query.withPayload ? 'hits' : 'results'} } = await response.json()`,
      query.withPayload
        ? 'for (const { id, distance, payload } of hits) console.log(id, distance, payload.content)'
        : 'for (const id of results) console.log(id)',
    ].join('\n'),
  python: (query, text) =>
    [
      `import os, requests`,
      ``,
      `response = requests.post('${query.url}${path(query)}/search',`,
      ...(query.needsKey ? [`    headers={'authorization': os.environ['KEY']},`] : []),
      `    json={`,
      pythonLiterals(inner(fields(query, text), '        ')),
      `    })`,
      `response.raise_for_status()`,
      ...(query.withPayload
        ? [
            `for hit in response.json()['hits']:`,
            `    print(hit['id'], hit['distance'], hit['payload']['content'])`,
          ]
        : [`for id in response.json()['results']:`, `    print(id)`]),
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
    'vector' in near ? ['vector', text(near.vector)] : nearField(near),
    ['similarity', JSON.stringify(query.metric)],
    ['limit', String(query.limit)],
    ...(query.ef === undefined ? [] : [['ef', String(query.ef)] as const]),
    ...(isEmptyFilter(query.filter) ? [] : [['filter', JSON.stringify(query.filter)] as const]),
    ...(query.withPayload ? [['include', '{"distance": true, "payload": true}'] as const] : []),
  ]
}

function nearField(near: { readonly id: string } | { readonly text: string }): Field {
  return 'id' in near ? ['id', JSON.stringify(near.id)] : ['text', JSON.stringify(near.text)]
}

/** The fields of the protobuf message in its JSON form. */
function grpcFields(query: QueryToShow, text: VectorText): readonly Field[] {
  const { near } = query
  return [
    'vector' in near
      ? ['query_vector', `{"values": ${text(near.vector)}}`]
      : 'id' in near
        ? ['near_id', `{"id": {"value": ${JSON.stringify(near.id)}}}`]
        : nearField(near),
    ['similarity', JSON.stringify(query.metric)],
    ['limit', String(query.limit)],
    ...(query.ef === undefined ? [] : [['ef', String(query.ef)] as const]),
    ...(isEmptyFilter(query.filter)
      ? []
      : [['filter', JSON.stringify(filterMessage(query.filter))] as const]),
    ...(query.withPayload ? [['include', '{"distance": true, "payload": true}'] as const] : []),
  ]
}

function inner(list: readonly Field[], indent: string): string {
  return list.map(([name, json]) => `${indent}"${name}": ${json}`).join(',\n')
}

/** Replaces true, false and null outside strings by their Python names. */
function pythonLiterals(text: string): string {
  const words: Readonly<Record<string, string>> = { true: 'True', false: 'False', null: 'None' }
  return text.replace(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (found) => words[found] ?? found)
}
