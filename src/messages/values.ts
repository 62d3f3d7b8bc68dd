import { checkAttributes } from '../base/attribute-patch.ts'
import {
  type Attributes,
  type AttributeValue,
  checkDateTime,
  checkDepth,
  checkGeo,
  checkName,
  checkNumber,
  checkPath,
  checkWrittenBytes,
  DateTime,
  GeoPoint,
  isList,
  placeOf,
  type Scalar,
} from '../base/attributes.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import { contentTypes, type Payload } from '../base/point.ts'
import type * as messages from './generated/vectordb_pb.js'
import { bytesOf, type Encoded } from './reader.ts'
import type { Init } from './writer.ts'

/** Ids, payloads and their attributes: between the service's types and messages, in both directions. */

export function idMessage(id: string): Init<messages.PointID> {
  return { id: { value: id } }
}

/** Returns the id in a PointID; empty if it has none. */
export function idIn(message: Encoded<messages.PointID>): string {
  return message.read().id?.read().value ?? ''
}

export function payloadMessage({
  contentType,
  content,
  attributes,
  expiresAtUs,
}: Payload): Init<messages.Payload> {
  return {
    contentType: contentTypes.indexOf(contentType),
    content,
    attributes: attributes && attributesMessage(attributes),
    expiresAtUs,
  }
}

export function attributesMessage(attributes: Attributes): Init<messages.Attributes> {
  const fields = new Map<string, Init<messages.Value>>()
  for (const [name, value] of attributes) fields.set(name, valueMessage(value))
  return { fields }
}

export function valueMessage(value: AttributeValue): Init<messages.Value> {
  if (typeof value === 'string') return { kind: { case: 'text', value } }
  if (typeof value === 'number') return { kind: { case: 'number', value } }
  if (typeof value === 'boolean') return { kind: { case: 'flag', value } }
  if (value instanceof DateTime) return { kind: { case: 'datetimeUs', value: value.us } }
  if (value instanceof GeoPoint) return { kind: { case: 'geo', value } }
  if (isList(value)) return { kind: { case: 'list', value: { items: value.map(valueMessage) } } }
  return { kind: { case: 'map', value: attributesMessage(value) } }
}

/** @returns undefined for empty attributes, which count as absent */
export function attributesIn(message: Encoded<messages.Attributes>, path: string): Attributes | undefined {
  checkWrittenBytes(bytesOf(message), path)
  return checkAttributes(mapIn(message, path, 1), path)
}

/** Reads `set` of a patch: attributes whose names are paths. */
export function setIn(message: Encoded<messages.Attributes>, path: string): Attributes | undefined {
  checkWrittenBytes(bytesOf(message), path)
  const set = new Map<string, AttributeValue>()
  for (const [name, value] of message.entries('fields')) {
    const at = placeOf(path, name)
    set.set(name, valueIn(value, at, checkPath(name, at).split('.').length + 1))
  }
  return checkAttributes(set, path)
}

/** Returns the attributes in a message of another node, which were checked before: names may be paths. */
export function attributesOf(message: Encoded<messages.Attributes>): Attributes {
  const map = new Map<string, AttributeValue>()
  for (const [name, value] of message.entries('fields')) map.set(name, attributeOf(value))
  return map
}

/** Returns the value in a message of another node. */
export function attributeOf(message: Encoded<messages.Value>): AttributeValue {
  return kindOf<AttributeValue>(message, (us) => new DateTime(us), attributesOf)
}

/**
 * Reads a value that a service has sent, to a node or to a client: both have the same texts, numbers, booleans,
 * locations and lists, and other dates and maps.
 *
 * @throws DatabaseError `internal` for a kind that this program does not know
 */
export function kindOf<Value>(
  message: Encoded<messages.Value>,
  dateOf: (us: number) => Value,
  mapOf: (map: Encoded<messages.Attributes>) => Value,
): Value {
  const { kind } = message.read()
  switch (kind.case) {
    case 'datetimeUs':
      return dateOf(Number(kind.value))
    case 'geo': {
      const { lat, lon } = kind.value.read()
      return new GeoPoint(lat, lon) as Value
    }
    case 'list':
      return Array.from(kind.value.items('items'), (item) => kindOf(item, dateOf, mapOf)) as Value
    case 'map':
      return mapOf(kind.value)
    case undefined:
      throw new DatabaseError('internal', 'a value has no known kind')
    default:
      return kind.value as Value
  }
}

/** @throws RangeError for a number that this program does not know */
export function nameOf<Name>(names: readonly Name[], number: number): Name {
  const name = names[number]
  if (name === undefined) throw new RangeError(`there is no number ${number} among ${names.join(', ')}`)
  return name
}

/** Reads a `Value` that is neither a list nor a map. */
export function scalarIn(message: Encoded<messages.Value>, path: string): Scalar {
  return valueIn(message, path, singleOnly) as Scalar
}

export function geoIn(message: Encoded<messages.GeoPoint>, path: string): GeoPoint {
  const { lat, lon } = message.read()
  return checkGeo(lat, lon, path)
}

/** Passed as the depth where maps and lists are refused. */
const singleOnly = 0

/** @param depth the nesting depth of the value if it is a map or a list */
function valueIn(message: Encoded<messages.Value>, path: string, depth: number): AttributeValue {
  const { kind } = message.read()
  switch (kind.case) {
    case 'text':
    case 'flag':
      return kind.value
    case 'number':
      return checkNumber(kind.value, path)
    case 'datetimeUs':
      return checkDateTime(kind.value, path)
    case 'geo':
      return geoIn(kind.value, path)
    case undefined:
      throw invalid(`${path} has no value: one of text, number, flag, datetime_us, geo, list and map`)
  }
  if (depth === singleOnly) throw invalid(`${path} is a list or a map, it must be a single value`)
  return kind.case === 'list' ? listIn(kind.value, path, depth) : mapIn(kind.value, path, depth)
}

function listIn(message: Encoded<messages.Values>, path: string, depth: number): readonly AttributeValue[] {
  checkDepth(depth, path)
  const values: AttributeValue[] = []
  for (const item of message.items('items')) {
    values.push(valueIn(item, `${path}[${values.length}]`, depth + 1))
  }
  return values
}

function mapIn(message: Encoded<messages.Attributes>, path: string, depth: number): Attributes {
  checkDepth(depth, path)
  const map = new Map<string, AttributeValue>()
  for (const [name, value] of message.entries('fields')) {
    map.set(checkName(name, path), valueIn(value, placeOf(path, name), depth + 1))
  }
  return map
}
