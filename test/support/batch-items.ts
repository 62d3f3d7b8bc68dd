import type { BatchItems } from '../../src/api/validation.ts'
import { DatabaseError } from '../../src/base/errors.ts'

/** The items of a batch; throws at the first one that could not be decoded, as an operation does. */
export function itemsOf<Item>(items: BatchItems<Item>): Item[] {
  return Array.from(items, (item) => {
    if (item instanceof DatabaseError) throw item
    return item
  }).filter((item) => item !== undefined)
}
