import type { Collections } from '../../src/api/call.ts'
import { DatabaseError } from '../../src/base/errors.ts'

/** For tests of a single set of points: named collections do not exist and cannot be created. */
export const noCollections: Collections = {
  aliases: new Map(),
  totals: {
    collections: 1,
    open: 1,
    damaged: 0,
    points: 0,
    unindexed: 0,
    tombstones: 0,
    memoryBytes: 0,
    memoryBytesMax: 0,
  },
  lease: refuse,
  list: () => [],
  get: refuse,
  put: refuse,
  drop: refuse,
  setAliases: refuse,
}

function refuse(): never {
  throw new DatabaseError('collection_not_found', 'there are no collections')
}
