import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { DateTime, GeoPoint } from '../base/attributes.ts'
import { DatabaseError } from '../base/errors.ts'
import {
  type Attributes,
  AttributesSchema,
  type Value,
  ValueSchema,
} from '../messages/generated/vectordb_pb.js'
import {
  type AttributeInput,
  type AttributeOutput,
  type AttributesInput,
  type AttributesOutput,
  entriesOf,
  isList,
  type Moment,
  microsecondsIn,
  momentOf,
  objectOf,
} from './attributes.ts'

/** Conversions between attributes and protobuf messages. */

export type ValueMessage = MessageInitShape<typeof ValueSchema>

/**
 * Creates a complete message: the library would assign the entries of an initializer, and lose the name `__proto__`.
 */
export function attributesMessage(attributes: AttributesInput): Attributes {
  const present = entriesOf(attributes).filter(([, value]) => value !== null && value !== undefined)
  const message = create(AttributesSchema)
  message.fields = objectOf(present, (value) => create(ValueSchema, valueMessage(value)))
  return message
}

export function valueMessage(value: AttributeInput): ValueMessage {
  if (typeof value === 'string') return { kind: { case: 'text', value } }
  if (typeof value === 'number') return { kind: { case: 'number', value } }
  if (typeof value === 'boolean') return { kind: { case: 'flag', value } }
  if (value instanceof Date || value instanceof DateTime) {
    return { kind: { case: 'datetimeUs', value: int64Of(value) } }
  }
  if (value instanceof GeoPoint) return { kind: { case: 'geo', value: { lat: value.lat, lon: value.lon } } }
  if (isList(value)) return { kind: { case: 'list', value: { items: value.map(valueMessage) } } }
  // An empty value: the service refuses it with the path of the missing value, as it does over HTTP.
  if (value === null || value === undefined) return {}
  return { kind: { case: 'map', value: attributesMessage(value as AttributesInput) } }
}

/** @throws DatabaseError `invalid_argument` for an invalid `Date` */
export function int64Of(moment: Moment): bigint {
  const us = microsecondsIn(moment)
  if (Number.isInteger(us)) return BigInt(us)
  throw new DatabaseError('invalid_argument', `${us} is not a whole number of microseconds since 1970`)
}

export function attributesFromMessage({ fields }: Attributes): AttributesOutput {
  return objectOf(entriesOfMap(fields), valueFromMessage)
}

/** The library assigns each entry of a map to a plain object, so an entry named `__proto__` becomes its prototype. */
function entriesOfMap(fields: Attributes['fields']): [string, Value][] {
  const prototype: unknown = Object.getPrototypeOf(fields)
  const entries = Object.entries(fields)
  return prototype === Object.prototype ? entries : [...entries, ['__proto__', prototype as Value]]
}

export function valueFromMessage({ kind }: Value): AttributeOutput {
  if (kind.case === 'datetimeUs') return momentOf(Number(kind.value))
  if (kind.case === 'geo') return new GeoPoint(kind.value.lat, kind.value.lon)
  if (kind.case === 'list') return kind.value.items.map(valueFromMessage)
  if (kind.case === 'map') return attributesFromMessage(kind.value)
  if (kind.case === undefined)
    throw new DatabaseError('internal', 'the service sent a value of no known kind')
  return kind.value
}
