import type { ContentType, JsonObject, JsonValue, NewPoint } from '../api/types.ts'
import { isObject } from './filters.ts'

/** Which fields of an imported object are what. Paths lead through objects: `payload.content`. */
export interface Mapping {
  readonly vector: string
  /** '' for none. */
  readonly content: string
  /** '' to let the server choose ids. */
  readonly id: string
  readonly contentType: ContentType
  /** Whether the fields that are nothing else become attributes. */
  readonly attributes: boolean
}

const vectorNames = ['vector', 'embedding', 'embeddings', 'values', 'vec']
const contentNames = ['payload.content', 'content', 'text', 'document', 'title', 'name', 'url']

/** A first guess from some objects of the file. */
export function guessMapping(objects: readonly JsonObject[]): Mapping {
  const first = objects[0] ?? {}
  const names = fieldPaths(first)
  const numbers = names.filter((name) => isVector(fieldAt(first, name)))
  const texts = names.filter((name) => typeof fieldAt(first, name) === 'string')
  const image = fieldAt(first, 'payload.content_type') === 'Image'
  return {
    vector: vectorNames.find((name) => numbers.includes(name)) ?? numbers[0] ?? '',
    content: contentNames.find((name) => texts.includes(name)) ?? texts.find((name) => name !== 'id') ?? '',
    id:
      texts.includes('id') && objects.every(({ id }) => typeof id === 'string' && uuid.test(id)) ? 'id' : '',
    contentType: image ? 'Image' : 'Text',
    attributes: true,
  }
}

const uuid = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i

/** The fields of an object, those one level down too. */
export function fieldPaths(object: JsonObject): readonly string[] {
  return Object.entries(object).flatMap(([name, value]) =>
    isObject(value) ? Object.keys(value).map((inner) => `${name}.${inner}`) : [name],
  )
}

export function fieldAt(object: JsonObject, path: string): JsonValue | undefined {
  if (path in object) return object[path]
  const dot = path.indexOf('.')
  const inner = dot < 0 ? undefined : object[path.slice(0, dot)]
  return isObject(inner) ? inner[path.slice(dot + 1)] : undefined
}

export function isVector(value: JsonValue | undefined): value is readonly number[] {
  return Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'number')
}

/**
 * The point that a line holds.
 *
 * @throws Error that says what is wrong with the line
 */
export function pointOf(text: string, mapping: Mapping, extended: boolean): NewPoint {
  const object = parseObject(text)
  const vector = fieldAt(object, mapping.vector)
  if (!isVector(vector)) throw new Error(`${mapping.vector} is not a list of numbers`)
  const content = mapping.content === '' ? '' : fieldAt(object, mapping.content)
  if (typeof content !== 'string') throw new Error(`${mapping.content} is not a text`)
  const attributes = extended && mapping.attributes ? attributesOf(object, mapping) : {}
  const id = extended && mapping.id !== '' ? fieldAt(object, mapping.id) : undefined
  return {
    ...(typeof id === 'string' ? { id } : {}),
    vector,
    payload: {
      content_type: mapping.contentType,
      content,
      ...(Object.keys(attributes).length === 0 ? {} : { attributes }),
    },
  }
}

/**
 * The object of a line.
 *
 * @throws Error if the line is not a JSON object
 */
export function parseObject(text: string): JsonObject {
  const value = JSON.parse(text) as JsonValue
  if (!isObject(value)) throw new Error('not a JSON object')
  return value
}

/** What `vicinal export` wrote has them in its payload; other files have them beside the vector. */
function attributesOf(object: JsonObject, mapping: Mapping): JsonObject {
  const exported = fieldAt(object, 'payload.attributes')
  if (isObject(exported)) return exported
  const used = [mapping.vector, mapping.content, mapping.id]
  return Object.fromEntries(
    Object.entries(object).filter(([name]) => !used.includes(name) && name !== 'payload' && name !== 'id'),
  )
}
