import type { SearchQuery } from '../base/point.ts'
import type { SearchResults } from '../base/search-results.ts'

/** The results of searches with their queries, which determine the parts of the results that the answer has. */
export interface SearchAnswer {
  readonly queries: readonly SearchQuery[]
  readonly results: SearchResults
}

/** Whether the answer has more than ids. */
export function hasDetails({ queries }: SearchAnswer): boolean {
  return queries.some(({ include, profile }) => include !== undefined || profile === true)
}
