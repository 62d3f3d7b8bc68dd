import { isUuid } from '../../../src/base/point.ts'
import { groupSize, type JsonObject, type JsonValue } from '../api/types.ts'
import { isObject, parseFilter } from './filters.ts'

/**
 * What shapes an answer, beside what to search near and by: examples, boosts, diversity, groups and a reranker. The
 * address of the page holds each field as text; `Shape` is its JSON in a request. The server checks all limits.
 */

/** The fields of a request that are given, by their names in JSON. */
export type Shape = JsonObject

export interface ShapeField {
  /** Of the parameter in the address. */
  readonly name: string
  /** Of the field in a request. */
  readonly json: string
  readonly label: string
  readonly placeholder: string
  readonly hint?: string
  /** Whether it needs several lines. */
  readonly isLong?: boolean
  /** @throws Error that says what is wrong with the text */
  readonly read: (text: string) => JsonValue
}

/** Those that an evaluation has, too. */
export const sharedFields: readonly ShapeField[] = [
  {
    name: 'boost',
    json: 'boost',
    label: 'Boosts',
    placeholder: '[{"filter": {"pinned": true}, "weight": 0.1}]',
    hint: 'Raise scores: what matches a filter, or {"recent": {"path": "at", "half_life": "14d"}, "weight": 0.2}.',
    isLong: true,
    read: boostsIn,
  },
  {
    name: 'diversity',
    json: 'diversity',
    label: 'Diversity',
    placeholder: '0 to 1',
    read: numberIn,
  },
  {
    name: 'rerank',
    json: 'rerank',
    label: 'Rerank',
    placeholder: 'like 50',
    read: numberIn,
  },
]

export const shapeFields: readonly ShapeField[] = [
  {
    name: 'group',
    json: 'group_by',
    label: 'Group by',
    placeholder: 'an attribute',
    read: (path) => ({ path, size: groupSize }),
  },
  { name: 'like', json: 'like', label: 'Like', placeholder: 'ids, with commas', read: idsIn },
  { name: 'unlike', json: 'unlike', label: 'Unlike', placeholder: 'ids, with commas', read: idsIn },
  ...sharedFields,
  {
    name: 'on_error',
    json: 'on_error',
    label: 'If reranking fails',
    placeholder: 'fail or skip',
    read: String,
  },
  {
    name: 'statistics',
    json: 'statistics',
    label: 'Count words in',
    placeholder: '{"lang": "en"}',
    hint: 'A filter: where it is counted how rare words are.',
    read: filterIn,
  },
]

/** The texts of the fields that are given. */
export type ShapeTexts = Readonly<Record<string, string>>

export function shapeTexts(params: URLSearchParams): ShapeTexts {
  const given = shapeFields.map(({ name }) => [name, params.get(name) ?? ''] as const)
  return Object.fromEntries(given.filter(([, text]) => text.trim() !== ''))
}

/**
 * Reads the fields that are given; those with a fault are left out, and their faults are shown.
 *
 * @param hasTarget whether there is something to search near, beside examples
 */
export function shapeOf(
  texts: ShapeTexts,
  fields: readonly ShapeField[] = shapeFields,
  hasTarget = true,
): { readonly shape: Shape; readonly faults: ShapeTexts } {
  const shape: Record<string, JsonValue> = {}
  const faults: Record<string, string> = {}
  for (const { name, json, read } of fields) {
    const text = texts[name]
    if (text === undefined) continue
    try {
      shape[json] = read(text.trim())
    } catch (error) {
      faults[name] = (error as Error).message
    }
  }
  if (shape.unlike !== undefined && !hasTarget && !hasExamples(shape)) {
    delete shape.unlike
    faults.unlike = 'This needs something to search near, like a point.'
  }
  return { shape, faults }
}

/** Whether a query is also near points, in place of a vector. */
export function hasExamples({ like }: Shape): boolean {
  return like !== undefined
}

/** Whether hits have scores that say more than their distances. */
export function isScored(words: string, { boost, rerank }: Shape): boolean {
  return words !== '' || boost !== undefined || rerank !== undefined
}

function idsIn(text: string): JsonValue {
  const ids = text.split(/[\s,]+/).filter((id) => id !== '')
  const bad = ids.find((id) => !isUuid(id))
  if (bad !== undefined) throw new Error(`${bad} is not a UUID.`)
  return ids
}

function boostsIn(text: string): JsonValue {
  const value = JSON.parse(text) as JsonValue
  const boosts = Array.isArray(value) ? (value as readonly JsonValue[]) : [value]
  if (!boosts.every(isObject)) throw new Error('Boosts must be JSON objects in a list.')
  boosts.forEach(checkBoost)
  return boosts
}

/** Checks what the program of the query needs. */
function checkBoost({ weight, filter, recent }: JsonObject, index: number): void {
  if (!Number.isFinite(weight)) throw new Error(`Boost ${index + 1} must have a number as its weight.`)
  if ((filter === undefined) === (recent === undefined) || !isObject(filter ?? recent)) {
    throw new Error(`Boost ${index + 1} must have one of filter and recent, as an object.`)
  }
}

function filterIn(text: string): JsonValue {
  const parsed = parseFilter(text)
  if ('fault' in parsed) throw new Error(parsed.fault)
  return { filter: parsed.filter }
}

function numberIn(text: string): JsonValue {
  const value = Number(text)
  if (!Number.isFinite(value)) throw new Error(`${text} is not a number.`)
  return value
}
