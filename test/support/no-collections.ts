import type { Collections } from '../../src/api/call.ts'
import { DatabaseError } from '../../src/base/errors.ts'

/** For tests of a single set of points: there are no named collections, and there cannot be any. */
export const noCollections: Collections = {
  aliases: new Map(),
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
