import { DateTime, GeoPoint, type Scalar } from '../../base/attributes.ts'
import type { Bounds, Filter, Ordered, Test } from '../../base/filter.ts'
import { partitionCount } from '../../base/partitions.ts'
import type { PackedReader, PackedWriter } from './packed-bytes.ts'

/**
 * The encoding of filters in log records: a byte for the kind of each node, then its fields. The numbers of kinds
 * never change.
 */

const nodeKinds = { all: 1, any: 2, not: 3, ids: 4, condition: 5, partitions: 6 } as const
const testOps = { in: 1, range: 2, exists: 3, contains: 4, prefix: 5, near: 6, box: 7 } as const
const scalarTags = { text: 1, number: 2, false: 3, true: 4, moment: 5, place: 6 } as const
const boundNames = ['gt', 'gte', 'lt', 'lte'] as const

export function writeFilter(to: PackedWriter, filter: Filter): void {
  to.byte(nodeKinds[filter.kind])
  if (filter.kind === 'all' || filter.kind === 'any') {
    to.count(filter.of.length)
    for (const each of filter.of) writeFilter(to, each)
  } else if (filter.kind === 'not') writeFilter(to, filter.of)
  else if (filter.kind === 'ids') to.bytes(filter.ids)
  else if (filter.kind === 'partitions') to.raw(filter.partitions)
  else {
    to.text(filter.path)
    writeTest(to, filter.test)
  }
}

/** @throws RangeError when these are not the bytes of a filter */
export function readFilter(from: PackedReader): Filter {
  const kind = from.byte()
  switch (kind) {
    case nodeKinds.all:
      return { kind: 'all', of: readFilters(from) }
    case nodeKinds.any:
      return { kind: 'any', of: readFilters(from) }
    case nodeKinds.not:
      return { kind: 'not', of: readFilter(from) }
    case nodeKinds.ids:
      return { kind: 'ids', ids: from.bytes() }
    case nodeKinds.partitions:
      return { kind: 'partitions', partitions: new Uint8Array(from.raw(partitionCount / 8)) }
    case nodeKinds.condition:
      return { kind: 'condition', path: from.text(), test: readTest(from) }
  }
  throw unknown('filter', kind)
}

function readFilters(from: PackedReader): Filter[] {
  return Array.from({ length: from.length(1) }, () => readFilter(from))
}

function writeTest(to: PackedWriter, test: Test): void {
  to.byte(testOps[test.op])
  switch (test.op) {
    case 'in':
    case 'contains':
      to.count(test.values.length)
      for (const value of test.values) writeScalar(to, value)
      break
    case 'range':
      to.byte(
        boundNames.reduce((set, name, bit) => set | (Number(test.bounds[name] !== undefined) << bit), 0),
      )
      for (const name of boundNames) if (test.bounds[name] !== undefined) writeScalar(to, test.bounds[name])
      break
    case 'prefix':
      to.text(test.text)
      break
    case 'near':
      writePlace(to, test.center)
      to.float64(test.radiusM)
      break
    case 'box':
      writePlace(to, test.southWest)
      writePlace(to, test.northEast)
      break
    case 'exists':
  }
}

function readTest(from: PackedReader): Test {
  const op = from.byte()
  switch (op) {
    case testOps.in:
      return { op: 'in', values: readScalars(from) }
    case testOps.contains:
      return { op: 'contains', values: readScalars(from) }
    case testOps.range:
      return { op: 'range', bounds: readBounds(from) }
    case testOps.exists:
      return { op: 'exists' }
    case testOps.prefix:
      return { op: 'prefix', text: from.text() }
    case testOps.near:
      return { op: 'near', center: readPlace(from), radiusM: from.float64() }
    case testOps.box:
      return { op: 'box', southWest: readPlace(from), northEast: readPlace(from) }
  }
  throw unknown('test', op)
}

function readScalars(from: PackedReader): Scalar[] {
  return Array.from({ length: from.length(1) }, () => readScalar(from))
}

function readBounds(from: PackedReader): Bounds {
  const set = from.byte()
  const bounds: Record<string, Ordered> = {}
  for (const [bit, name] of boundNames.entries()) {
    if ((set & (1 << bit)) === 0) continue
    const value = readScalar(from)
    if (typeof value === 'boolean' || value instanceof GeoPoint)
      throw new RangeError('a value is not a bound of a range')
    bounds[name] = value
  }
  return bounds
}

export function writeScalar(to: PackedWriter, value: Scalar): void {
  if (typeof value === 'string') {
    to.byte(scalarTags.text)
    to.text(value)
  } else if (typeof value === 'number') {
    to.byte(scalarTags.number)
    to.float64(value)
  } else if (typeof value === 'boolean') to.byte(value ? scalarTags.true : scalarTags.false)
  else if (value instanceof DateTime) {
    to.byte(scalarTags.moment)
    to.float64(value.us)
  } else {
    to.byte(scalarTags.place)
    writePlace(to, value)
  }
}

export function readScalar(from: PackedReader): Scalar {
  const tag = from.byte()
  switch (tag) {
    case scalarTags.text:
      return from.text()
    case scalarTags.number:
      return from.float64()
    case scalarTags.true:
      return true
    case scalarTags.false:
      return false
    case scalarTags.moment:
      return new DateTime(from.float64())
    case scalarTags.place:
      return readPlace(from)
  }
  throw unknown('value', tag)
}

function writePlace(to: PackedWriter, { lat, lon }: GeoPoint): void {
  to.float64(lat)
  to.float64(lon)
}

function readPlace(from: PackedReader): GeoPoint {
  return new GeoPoint(from.float64(), from.float64())
}

function unknown(what: string, number: number): RangeError {
  return new RangeError(`no ${what} has the number ${number}`)
}
