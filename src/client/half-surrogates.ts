import { DatabaseError } from '../base/errors.ts'
import { halfSurrogateIn, halfSurrogateWords } from '../base/half-surrogates.ts'
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
  const place = halfSurrogateIn(value, contentOf)
  if (place === undefined) return
  throw new DatabaseError('invalid_argument', `${`${at}${place}`.replace(/^\./, '')} ${halfSurrogateWords}`)
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
