import { overlap } from './attribute-patch.ts'
import {
  type Attributes,
  type AttributeValue,
  attributeToJson,
  DateTime,
  isList,
  isMap,
} from './attributes.ts'
import { DatabaseError } from './errors.ts'
import type { Bounds, Filter, Ordered, Test } from './filter.ts'
import type { Patch, Payload } from './point.ts'

/**
 * The filter of a key, which a point must match so that callers with the key can see or change it. The engine evaluates
 * it on stored points, like any filter; this file does on points that are not stored yet.
 */

/** Returns what a key's filter must not have, in words; undefined if it can be one. */
export function faultOfKeyFilter(filter: Filter): string | undefined {
  if (pathsOf(filter).length === 0) return 'it tests no attribute'
  return faultIn(filter)
}

function faultIn(filter: Filter): string | undefined {
  switch (filter.kind) {
    case 'all':
    case 'any':
      return filter.of.map(faultIn).find((fault) => fault !== undefined)
    case 'not':
      return faultIn(filter.of)
    case 'condition':
      if (filter.path.startsWith('$')) return `${filter.path} is not an attribute`
      return tests.has(filter.test.op) ? undefined : `${filter.path} is not tested for its value`
    case 'ids':
    case 'partitions':
      return '$id is not an attribute'
  }
}

const tests: ReadonlySet<Test['op']> = new Set<Test['op']>(['in', 'contains', 'range', 'exists', 'prefix'])

/** The paths that a filter tests. */
function pathsOf(filter: Filter): readonly string[] {
  if (filter.kind === 'condition') return [filter.path]
  if (filter.kind === 'all' || filter.kind === 'any') return filter.of.flatMap(pathsOf)
  return filter.kind === 'not' ? pathsOf(filter.of) : []
}

/** Returns a filter that points match if they match both. */
export function both(one: Filter, other: Filter | undefined): Filter {
  return other === undefined ? one : { kind: 'all', of: [one, other] }
}

/** Whether a point with these attributes matches a key's filter. */
export function matchesKeyFilter(filter: Filter, attributes: Attributes | undefined): boolean {
  switch (filter.kind) {
    case 'all':
      return filter.of.every((each) => matchesKeyFilter(each, attributes))
    case 'any':
      return filter.of.some((each) => matchesKeyFilter(each, attributes))
    case 'not':
      return !matchesKeyFilter(filter.of, attributes)
    case 'condition':
      return meets(filter.test, valuesAt(attributes, filter.path))
    case 'ids':
    case 'partitions':
      return false
  }
}

/** The values at a path, maps and lists included; a list is followed by its elements. */
function valuesAt(attributes: Attributes | undefined, path: string): readonly AttributeValue[] {
  let values: readonly AttributeValue[] = attributes === undefined ? [] : [attributes]
  for (const name of path.split('.')) {
    values = values.flatMap((each) => {
      const value = isMap(each) ? each.get(name) : undefined
      return value === undefined ? [] : withElements(value)
    })
  }
  return values
}

function withElements(value: AttributeValue): readonly AttributeValue[] {
  return isList(value) ? [value, ...value.flatMap(withElements)] : [value]
}

function meets(test: Test, values: readonly AttributeValue[]): boolean {
  switch (test.op) {
    case 'exists':
      return values.length > 0
    case 'in': {
      const wanted = new Set(test.values.map(attributeToJson))
      return values.some((value) => wanted.has(attributeToJson(value)))
    }
    case 'contains': {
      const held = new Set(values.map(attributeToJson))
      return test.values.every((value) => held.has(attributeToJson(value)))
    }
    case 'range':
      return values.some((value) => isWithin(value, test.bounds))
    case 'prefix':
      return values.some((value) => typeof value === 'string' && value.startsWith(test.text))
    default:
      return false
  }
}

function isWithin(value: AttributeValue, { gt, gte, lt, lte }: Bounds): boolean {
  return (
    (gt === undefined || compare(value, gt) > 0) &&
    (gte === undefined || compare(value, gte) >= 0) &&
    (lt === undefined || compare(value, lt) < 0) &&
    (lte === undefined || compare(value, lte) <= 0)
  )
}

/** Returns less than 0, 0 or more than 0; NaN, which no comparison accepts, for values of different types. */
function compare(value: AttributeValue, bound: Ordered): number {
  if (typeof value === 'number' && typeof bound === 'number') return value - bound
  if (value instanceof DateTime && bound instanceof DateTime) return value.us - bound.us
  if (typeof value === 'string' && typeof bound === 'string') {
    return Buffer.compare(Buffer.from(value), Buffer.from(bound))
  }
  return Number.NaN
}

/**
 * Returns why a point may not be stored with a key's filter; undefined if it may. At each path of the filter it has at
 * most one value: with a list, it could match the filters of other keys, too.
 *
 * @param path of its payload in the request, like `vectors[3].payload`
 */
export function refusalOfPoint(
  filter: Filter,
  { attributes }: Payload,
  path: string,
): DatabaseError | undefined {
  for (const each of pathsOf(filter)) {
    const values = valuesAt(attributes, each)
    if (values.length > 1 || values.some(isList)) {
      return refused(`${path}.attributes has several values at ${each}, which the filter of the key tests`)
    }
  }
  if (matchesKeyFilter(filter, attributes)) return undefined
  return refused(`${path}.attributes do not match the filter of the key`)
}

/** Returns why points may not be changed with a key's filter: a patch must not change what the filter tests. */
export function refusalOfPatch(filter: Filter, { set, unset = [] }: Patch): DatabaseError | undefined {
  const changed = [...(set?.keys() ?? []), ...unset]
  const paths = pathsOf(filter)
  const path = changed.find((each) => paths.some((own) => overlap(each, own)))
  return path === undefined ? undefined : refused(`${path} cannot be changed: the filter of the key tests it`)
}

/** The error of a write that a key's filter does not allow. */
export function refused(message: string): DatabaseError {
  return new DatabaseError('permission_denied', message)
}
