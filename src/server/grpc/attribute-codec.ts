import {
  checkDateTime,
  checkDepth,
  checkGeo,
  checkName,
  checkNumber,
  checkPath,
  checkWrittenBytes,
  placeOf,
} from '../../base/attribute-checks.ts'
import { isList } from '../../base/attribute-json.ts'
import { checkAttributes } from '../../base/attribute-totals.ts'
import {
  type Attributes,
  type AttributeValue,
  DateTime,
  GeoPoint,
  type Scalar,
} from '../../base/attributes.ts'
import { DatabaseError } from '../../base/errors.ts'
import { BackwardWriter } from './backward-writer.ts'
import { MergedMessage, Oneof } from './merged-message.ts'
import { type WireReader, wireFixed64, wireLength, wireVarint } from './wire.ts'

/** `Attributes`, `Value` and moments on the wire, with the same checks as in JSON. */

/** @returns undefined for empty attributes, which count as absent */
export function readAttributes(message: WireReader, path: string): Attributes | undefined {
  checkWrittenBytes(message.bytesLeft, path)
  return checkAttributes(readMap(message, path, 1), path)
}

/** Reads `set` of a patch: attributes whose names are paths. */
export function readSet(message: WireReader, path: string): Attributes | undefined {
  checkWrittenBytes(message.bytesLeft, path)
  const set = new Map<string, AttributeValue>()
  for (const { name, value } of entriesOf(message)) {
    const at = placeOf(path, name)
    set.set(name, readValue(value, at, checkPath(name, at).split('.').length + 1))
  }
  return checkAttributes(set, path)
}

/** Reads a `Value` that is neither a list nor a map. */
export function readScalar(message: WireReader, path: string): Scalar {
  return readValue(message, path, singleOnly) as Scalar
}

/** Reads a `GeoPoint`. */
export function readGeo(message: WireReader, path: string): GeoPoint {
  let lat = 0
  let lon = 0
  while (message.next()) {
    if (message.is(1, wireFixed64)) lat = message.double()
    else if (message.is(2, wireFixed64)) lon = message.double()
    else message.skip()
  }
  return checkGeo(lat, lon, path)
}

/** Returns the bytes of an `Attributes` message, without a tag. */
export function encodeAttributes(attributes: Attributes): Buffer {
  const writer = new BackwardWriter()
  writeMap(writer, attributes)
  return writer.finish()
}

/** Returns the bytes of a `Value` message, without a tag. */
export function encodeValue(value: AttributeValue): Buffer {
  const writer = new BackwardWriter()
  writeValue(writer, value)
  return writer.finish()
}

function readMap(message: WireReader, path: string, depth: number): Attributes {
  checkDepth(depth, path)
  const map = new Map<string, AttributeValue>()
  for (const { name, value } of entriesOf(message)) {
    map.set(checkName(name, path), readValue(value, placeOf(path, name), depth + 1))
  }
  return map
}

/** Yields the entries of a map. A missing key or value is empty. */
function* entriesOf(message: WireReader): Generator<{ name: string; value: WireReader }, void, void> {
  while (message.next()) {
    if (!message.is(1, wireLength)) {
      message.skip()
      continue
    }
    const entry = message.message()
    let name = ''
    const value = new MergedMessage()
    while (entry.next()) {
      if (entry.is(1, wireLength)) name = entry.string()
      else if (entry.is(2, wireLength)) value.add(entry.view())
      else entry.skip()
    }
    yield { name, value: value.reader() }
  }
}

/** Passed as the depth where maps and lists are refused. */
const singleOnly = 0

/** @param depth the nesting depth of the value if it is a map or a list */
function readValue(message: WireReader, path: string, depth: number): AttributeValue {
  const kind = new Oneof()
  let scalar: Scalar = 0
  let us: number | bigint = 0
  while (message.next()) {
    const { field } = message
    if (message.is(1, wireLength)) scalar = message.string()
    else if (message.is(2, wireFixed64)) scalar = message.double()
    else if (message.is(3, wireVarint)) scalar = message.bool()
    else if (message.is(4, wireVarint)) us = message.int64()
    else if (field >= 5 && field <= 7 && message.type === wireLength) {
      kind.setMessage(field, message.view())
      continue
    } else {
      message.skip()
      continue
    }
    kind.setScalar(field)
  }
  if (kind.field === 4) return checkDateTime(us, path)
  if (kind.field === 5) return readGeo(kind.reader(), path)
  if (kind.field > 5 && depth === singleOnly) throw notSingle(path)
  if (kind.field === 6) return readList(kind.reader(), path, depth)
  if (kind.field === 7) return readMap(kind.reader(), path, depth)
  if (kind.field === 0)
    throw invalid(`${path} has no value: one of text, number, flag, datetime_us, geo, list and map`)
  return typeof scalar === 'number' ? checkNumber(scalar, path) : scalar
}

function readList(message: WireReader, path: string, depth: number): readonly AttributeValue[] {
  checkDepth(depth, path)
  const values: AttributeValue[] = []
  while (message.next()) {
    if (message.is(1, wireLength)) {
      values.push(readValue(message.message(), `${path}[${values.length}]`, depth + 1))
    } else message.skip()
  }
  return values
}

function writeMap(writer: BackwardWriter, map: Attributes): void {
  for (const [name, value] of [...map].reverse()) {
    const end = writer.length
    writeValue(writer, value)
    writer.head(2, end)
    writer.text(1, name)
    writer.head(1, end)
  }
}

function writeValue(writer: BackwardWriter, value: AttributeValue): void {
  const end = writer.length
  if (typeof value === 'string') writer.text(1, value)
  else if (typeof value === 'number') writer.double(2, value)
  else if (typeof value === 'boolean') writer.uint64(3, value ? 1n : 0n)
  else if (value instanceof DateTime) writer.uint64(4, BigInt.asUintN(64, BigInt(value.us)))
  else if (value instanceof GeoPoint) {
    writer.double(2, value.lon)
    writer.double(1, value.lat)
    writer.head(5, end)
  } else if (isList(value)) {
    for (const each of value.toReversed()) {
      const itemEnd = writer.length
      writeValue(writer, each)
      writer.head(1, itemEnd)
    }
    writer.head(6, end)
  } else {
    writeMap(writer, value)
    writer.head(7, end)
  }
}

function notSingle(path: string): DatabaseError {
  return invalid(`${path} is a list or a map, it must be a single value`)
}

function invalid(message: string): DatabaseError {
  return new DatabaseError('invalid_argument', message)
}
