import type { Filter, Test } from '../../src/base/filter.ts'
import { idFromBytes } from '../../src/base/ids.ts'
import type * as client from '../../src/client/values.ts'

/** Converts a filter to the form that callers of the client write. */
export function clientFilterOf(filter: Filter): client.Filter {
  switch (filter.kind) {
    case 'all':
      return { $and: filter.of.map(clientFilterOf) }
    case 'any':
      return { $or: filter.of.map(clientFilterOf) }
    case 'not':
      return { $not: clientFilterOf(filter.of) }
    case 'ids':
      return { $id: { $in: idsOf(filter.ids) } }
    case 'partitions':
      throw new Error('the client has no filters by partition')
    default:
      // Unlike an assignment, this defines every name as an own property, also `__proto__`.
      return Object.fromEntries([[filter.path, testsOf(filter.test)]])
  }
}

/** The ids that a filter names. */
export function idsOf(bytes: Uint8Array): string[] {
  return Array.from({ length: bytes.length / 16 }, (_, index) => idFromBytes(bytes, index * 16))
}

function testsOf(test: Test): client.FilterTests {
  switch (test.op) {
    case 'in':
      return test.values.length === 1 ? { $eq: test.values[0]! } : { $in: test.values }
    case 'contains':
      return { $all: test.values }
    case 'exists':
      return { $exists: true }
    case 'prefix':
      return { $prefix: test.text }
    case 'match':
    case 'phrase':
      return { [`$${test.op}`]: test.text }
    case 'near':
      return { $near: { lat: test.center.lat, lon: test.center.lon, radius_m: test.radiusM } }
    case 'box':
      return { $box: { south_west: test.southWest, north_east: test.northEast } }
    default:
      return Object.fromEntries(Object.entries(test.bounds).map(([name, bound]) => [`$${name}`, bound]))
  }
}
