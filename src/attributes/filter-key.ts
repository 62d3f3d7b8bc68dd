import { createHash, type Hash } from 'node:crypto'
import { DateTime, GeoPoint, type Scalar } from '../base/attributes.ts'
import type { Filter, Test } from '../base/filter.ts'

/**
 * A short key of a filter, in steps. Filters that differ only in the order of conditions or values have the same key, except
 * that many values are taken in the order in which they are given.
 */
export function* filterKey(filter: Filter): Generator<void, string> {
  const hash = createHash('sha256')
  switch (filter.kind) {
    case 'all':
    case 'any': {
      const keys = new Set<string>()
      for (const each of filter.of) {
        keys.add(yield* filterKey(each))
        yield
      }
      hash.update(`${filter.kind}(${[...keys].sort().join(',')})`)
      break
    }
    case 'not':
      hash.update(`not(${yield* filterKey(filter.of)})`)
      break
    case 'ids':
      hash.update('ids').update(filter.ids)
      break
    case 'condition':
      hash.update(`condition ${JSON.stringify(filter.path)} `)
      yield* updateWithTest(hash, filter.test)
  }
  return hash.digest('base64')
}

function* updateWithTest(hash: Hash, test: Test): Generator<void, void> {
  switch (test.op) {
    case 'in':
    case 'contains': {
      hash.update(`${test.op} `)
      if (test.values.length <= sortedMax)
        hash.update([...new Set(test.values.map(scalarKey))].sort().join(','))
      else yield* updateWithMany(hash, test.values)
      return
    }
    case 'range': {
      const { gt, gte, lt, lte } = test.bounds
      const bounds = [gt, gte, lt, lte].map((bound) => (bound === undefined ? '-' : scalarKey(bound)))
      hash.update(`range ${bounds.join(',')}`)
      return
    }
    case 'near':
      hash.update(`near ${scalarKey(test.center)},${test.radiusM}`)
      return
    case 'box':
      hash.update(`box ${scalarKey(test.southWest)},${scalarKey(test.northEast)}`)
      return
    case 'prefix':
      hash.update(`prefix ${scalarKey(test.prefix)}`)
      return
    case 'exists':
      hash.update('exists')
  }
}

function* updateWithMany(hash: Hash, values: readonly Scalar[]): Generator<void, void> {
  for (let at = 0; at < values.length; at += valuesPerStep) {
    hash.update(
      `${values
        .slice(at, at + valuesPerStep)
        .map(scalarKey)
        .join(',')},`,
    )
    yield
  }
}

function scalarKey(value: Scalar): string {
  if (value instanceof DateTime) return `@${value.us}`
  if (value instanceof GeoPoint) return `(${value.lat + 0} ${value.lon + 0})`
  return typeof value === 'number' ? String(value + 0) : JSON.stringify(value)
}

const sortedMax = 1024
const valuesPerStep = 1024
