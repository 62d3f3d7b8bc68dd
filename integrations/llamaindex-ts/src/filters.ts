import type { MetadataFilter, MetadataFilters, VectorStoreQuery } from '@llamaindex/core/vector-store'
import { DatabaseError, type Filter, type FilterTests, uuidOf } from 'vicinal-client'

/** Returns a filter for everything that a query asks for; undefined if it asks for nothing. */
export function filterOf({ filters, docIds = [] }: VectorStoreQuery): Filter | undefined {
  const parts: Filter[] = []
  if (filters !== undefined && filters.filters.length > 0) parts.push(joined(filters))
  if (docIds.length > 0) parts.push(ofIds(docIds))
  return parts.length === 0 ? undefined : { $and: parts }
}

/** LlamaIndex's own stores disagree whether these are ids of documents or of nodes, so this matches both. */
function ofIds(ids: readonly string[]): Filter {
  return { $or: [{ ref_doc_id: { $in: ids } }, { $id: { $in: ids.map(uuidOf) } }] }
}

function joined({ filters, condition = 'and' }: MetadataFilters): Filter {
  const parts = filters.map(testOf)
  return condition === 'or' ? { $or: parts } : { $and: parts }
}

function testOf(filter: MetadataFilter): Filter {
  const { key, operator } = filter
  switch (operator) {
    case 'is_empty':
      // Empty lists are not stored.
      return { $or: [{ [key]: { $exists: false } }, { [key]: '' }] }
    case 'in':
    case 'any':
      return { [key]: { $in: valuesOf(filter) } }
    case 'nin':
      return { [key]: { $nin: valuesOf(filter) } }
    case 'all':
      return { [key]: { $all: valuesOf(filter) } }
    default:
      return { [key]: { [comparisonOf(filter)]: singleOf(filter) } }
  }
}

function comparisonOf({ key, operator }: MetadataFilter): keyof FilterTests {
  const name = comparisons.get(operator)
  if (name !== undefined) return name
  throw new DatabaseError('invalid_argument', `${key} ${operator}: Vicinal has no such filter`)
}

const comparisons: ReadonlyMap<string, keyof FilterTests> = new Map([
  ['==', '$eq'],
  ['contains', '$eq'],
  ['!=', '$ne'],
  ['>', '$gt'],
  ['>=', '$gte'],
  ['<', '$lt'],
  ['<=', '$lte'],
])

function singleOf({ key, operator, value }: MetadataFilter): string | number {
  if (value !== undefined && !Array.isArray(value)) return value
  throw new DatabaseError('invalid_argument', `${key} ${operator} needs a single value`)
}

function valuesOf({ key, operator, value }: MetadataFilter): readonly (string | number)[] {
  if (value === undefined) throw new DatabaseError('invalid_argument', `${key} ${operator} needs a value`)
  return Array.isArray(value) ? value : [value]
}
