import type { ContentType, JsonObject, JsonValue, NewPoint } from '../api/types.ts'
import { isObject, valueText } from '../lib/filters.ts'
import { fieldAt, isVector, numbersIn } from './columns.ts'
import { isAttributeName, type Mapping, valueAs } from './mapping.ts'

/**
 * Converts a row to a point.
 *
 * @throws Error that says what is wrong with the row
 */
export function pointOf(record: JsonObject, mapping: Mapping, isTyped: boolean): NewPoint {
  const id = mapping.id === '' ? undefined : fieldAt(record, mapping.id)
  const attributes = attributesOf(record, mapping, isTyped)
  const expiresAt = mapping.expiresAt === '' ? undefined : fieldAt(record, mapping.expiresAt)
  return {
    ...(typeof id === 'string' ? { id } : {}),
    vector: vectorOf(record, mapping),
    payload: {
      content_type: contentTypeOf(record, mapping),
      content: contentOf(record, mapping),
      ...(Object.keys(attributes).length === 0 ? {} : { attributes }),
      ...(typeof expiresAt === 'string' ? { expires_at: expiresAt } : {}),
    },
  }
}

function vectorOf(record: JsonObject, { vector: name, components }: Mapping): readonly number[] {
  const cell =
    components.length > 0 ? components.map((each) => fieldAt(record, each) ?? '') : fieldAt(record, name)
  if (isVector(cell)) return cell
  if (cell === undefined || cell === null || cell === '') throw new Error(`${name} is empty`)
  const parts = typeof cell === 'string' ? numbersIn(cell) : cell
  if (!Array.isArray(parts) || parts.length === 0) throw new Error(`${name} is not a list of numbers`)
  return parts.map((part: JsonValue) => numberOf(part, name))
}

function numberOf(part: JsonValue, name: string): number {
  const isNumber = typeof part === 'number' || (typeof part === 'string' && part.trim() !== '')
  const value = Number(part)
  if (isNumber && Number.isFinite(value)) return value
  throw new Error(`${name} contains a value that is not a number: ${valueText(part).slice(0, 40)}`)
}

function contentOf(record: JsonObject, { content: name }: Mapping): string {
  const value = name === '' ? '' : fieldAt(record, name)
  // CSV omits empty fields.
  if (value === undefined || value === null) return ''
  if (isObject(value) || Array.isArray(value)) throw new Error(`${name} is not text`)
  return String(value)
}

function contentTypeOf(record: JsonObject, { contentType }: Mapping): ContentType {
  if (typeof contentType === 'string') return contentType
  const value = fieldAt(record, contentType.column) ?? 'Text'
  if (value === 'Text' || value === 'Image') return value
  throw new Error(`${contentType.column} is not Text or Image`)
}

function attributesOf(record: JsonObject, mapping: Mapping, isTyped: boolean): JsonObject {
  const map = mapping.map === '' ? {} : mapOf(fieldAt(record, mapping.map), mapping.map)
  const own = mapping.attributes.flatMap(
    ({ column, kept, type }): readonly (readonly [string, JsonValue])[] => {
      const value = kept ? fieldAt(record, column) : undefined
      if (value === undefined || value === null) return []
      if (!isAttributeName(column)) throw new Error(`${column} is not a valid attribute name`)
      try {
        return [[column, valueAs(value, type, isTyped)]]
      } catch (error) {
        throw new Error(`${column} ${(error as Error).message}`)
      }
    },
  )
  return { ...map, ...Object.fromEntries(own) }
}

function mapOf(value: JsonValue | undefined, name: string): JsonObject {
  if (value === undefined || value === null || value === '') return {}
  const map = typeof value === 'string' ? (JSON.parse(value) as JsonValue) : value
  if (isObject(map)) return map
  throw new Error(`${name} is not a map`)
}
