import type { Filter } from '../base/filter.ts'
import { filterText } from '../base/filter-text.ts'
import type { ApiContext } from './call.ts'
import type { OperationName } from './operations.ts'
import type { SearchAnswer } from './search-answer.ts'
import type { RequestFacts } from './slow-requests.ts'

/** Describes a request and its result, for the list of slow requests. */
export function requestFacts({ database }: ApiContext, input: unknown, output: unknown): RequestFacts {
  if (isSearch(output)) return factsOfSearch(database, output)
  const { filter, limit } = (input ?? {}) as { readonly filter?: Filter; readonly limit?: unknown }
  return {
    ...(typeof limit === 'number' ? { limit } : {}),
    ...(filter === undefined ? {} : { filter: filterText(filter, filterMax) }),
  }
}

/**
 * Whether slow requests of an operation are kept: only those that look for points. Inserts wait for the disk, and large
 * ones always take long; they would displace every slow search.
 */
export function isKeptIfSlow(name: OperationName): boolean {
  return name === 'SearchPoints' || name === 'SearchPointsBatch' || filtering.has(name)
}

/** Whether the facts of an operation are in its input; those of searches are in the answer. */
export function isDescribedByInput(name: OperationName): boolean {
  return filtering.has(name)
}

const filtering: ReadonlySet<OperationName> = new Set([
  'ListPoints',
  'CountPoints',
  'FacetPoints',
  'UpdatePoints',
  'DeletePoints',
] as const)

function isSearch(output: unknown): output is SearchAnswer {
  return typeof output === 'object' && output !== null && 'queries' in output && 'results' in output
}

function factsOfSearch(database: ApiContext['database'], { queries, results }: SearchAnswer): RequestFacts {
  const [query] = queries
  if (query === undefined) return { queries: 0, hits: 0 }
  const { metric, limit, ef, filter } = query
  const found = results.plans?.[0]
  // Plain searches record no plan. Theirs was the plan in force now, unless that has just changed.
  const { plan, reason } = found ?? planInForce(database, metric)
  return {
    ...(queries.length > 1 ? { queries: queries.length } : {}),
    ...{ metric, limit, ef, plan, reason },
    ...(filter === undefined ? {} : { filter: filterText(filter, filterMax) }),
    hits: results.ids.total,
  }
}

function planInForce(
  { stats }: ApiContext['database'],
  metric: keyof ApiContext['database']['stats']['plans'],
): Pick<RequestFacts, 'plan' | 'reason'> {
  const hasRoute = stats.plans[metric].route !== undefined
  return hasRoute
    ? { plan: 'graph', reason: 'the graph reaches the recall target' }
    : { plan: 'scan of all points', reason: 'a scan costs less, or no graph serves this metric now' }
}

const filterMax = 300
