import { IdLists, type SearchResults } from '../../src/base/id-lists.ts'
import type { Point, SearchQuery } from '../../src/base/point.ts'
import type {
  CollectionStats,
  Database,
  FacetCount,
  Inserted,
  ListPage,
  PointsSnapshot,
} from '../../src/points/database.ts'

/** A database that records its calls, so that a test can compare two forms of the same request. */
export class NotingDatabase implements Database {
  readonly dimension = 2
  readonly nowUs = 1_790_000_000_000_000
  /** Method names and arguments, without signals. */
  readonly calls: (readonly unknown[])[] = []

  async insert(...[points, options]: Parameters<Database['insert']>): Promise<Inserted> {
    this.calls.push(['insert', points, options?.onError ?? 'abort'])
    return { ids: points.map(({ id }) => id ?? 'new'), errors: [] }
  }

  async remove(id: string): Promise<boolean> {
    this.calls.push(['remove', id])
    return true
  }

  async put(
    ...[id, point, when]: Parameters<Database['put']>
  ): Promise<{ version: number; created: boolean }> {
    this.calls.push(['put', id, point, when])
    return { version: 1, created: true }
  }

  async patch(...[id, patch, when]: Parameters<Database['patch']>): Promise<{ version: number }> {
    this.calls.push(['patch', id, patch, when])
    return { version: 1 }
  }

  async changeByFilter(
    ...[request]: Parameters<Database['changeByFilter']>
  ): Promise<{ changed: number; more: boolean }> {
    this.calls.push(['changeByFilter', request])
    return { changed: 0, more: false }
  }

  async get(id: string): Promise<Point | undefined> {
    this.calls.push(['get', id])
    return undefined
  }

  async search(queries: readonly SearchQuery[]): Promise<SearchResults> {
    this.calls.push(['search', queries])
    return {
      ids: IdLists.of(queries.map(() => [])),
      distances: new Float64Array(0),
      sequences: new Float64Array(0),
      details: queries.map(() => undefined),
      profiles: queries.map(() => undefined),
      plans: queries.map(() => undefined),
    }
  }

  async list(...[query]: Parameters<Database['list']>): Promise<ListPage> {
    this.calls.push(['list', query])
    return { points: [] }
  }

  async count(...[filter]: Parameters<Database['count']>): Promise<number> {
    this.calls.push(['count', filter])
    return 0
  }

  async facets(
    ...[query]: Parameters<Database['facets']>
  ): Promise<ReadonlyMap<string, readonly FacetCount[]>> {
    this.calls.push(['facets', query])
    return new Map()
  }

  get stats(): CollectionStats {
    throw new Error('there is no index')
  }

  snapshot(): PointsSnapshot {
    throw new Error('there is nothing to read')
  }
}
