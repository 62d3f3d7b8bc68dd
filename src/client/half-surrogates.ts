import { DatabaseError } from '../base/errors.ts'
import { AttributesSchema, ValueSchema, ValuesSchema } from './generated/vectordb_pb.js'

/**
 * Refuses text with half of a surrogate pair, as the service does over HTTP. protobuf-es would silently replace it by
 * U+FFFD, so other text would be stored, and different texts would become equal.
 *
 * @param value a request, a filter or a payload
 * @param at its place, for the message; '' for a request, whose fields are the beginning of their places
 * @throws DatabaseError `invalid_argument` that names the place of the text
 */
export function refuseHalfSurrogates(value: unknown, at: string): void {
  const place = halfSurrogateIn(value)
  if (place === undefined) return
  throw new DatabaseError('invalid_argument', `${`${at}${place}`.replace(/^\./, '')} ${halfSurrogateWords}`)
}

/** What is wrong with such a text, in the words of the service. */
export const halfSurrogateWords = 'has half of a surrogate pair, it must be text that UTF-8 can hold'

/**
 * Finds text with half of a surrogate pair.
 *
 * @returns its place below `value`, like `.content` or `[1].a`; undefined if there is none
 */
export function halfSurrogateIn(value: unknown): string | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : ''
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return undefined
  // Each caller adds its part of the place, so that nothing is built for text without a fault.
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      const place = halfSurrogateIn(value[index])
      if (place !== undefined) return `[${index}]${place}`
    }
    return undefined
  }
  const content = contentOf(value as MessageOfAttributes)
  if (content !== value) return halfSurrogateIn(content)
  for (const [name, each] of value instanceof Map ? value : Object.entries(value)) {
    if (!name.isWellFormed()) return `.${JSON.stringify(name)}`
    const place = halfSurrogateIn(each)
    if (place !== undefined) return `.${name}${place}`
  }
  return undefined
}

type MessageOfAttributes = object & {
  readonly $typeName?: string
  readonly fields?: object
  readonly kind?: { readonly value?: unknown }
  readonly items?: readonly unknown[]
}

/** Unwraps the messages around attributes, which callers do not write and which no place should have. */
function contentOf(value: MessageOfAttributes): unknown {
  if (value.$typeName === AttributesSchema.typeName) return value.fields
  if (value.$typeName === ValueSchema.typeName) return value.kind?.value
  if (value.$typeName === ValuesSchema.typeName) return value.items
  return value
}
