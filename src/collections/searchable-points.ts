import type { AttributeIndex } from '../attributes/attribute-index.ts'
import type { Payload } from '../base/point.ts'
import type { PointTable } from '../points/point-table.ts'
import type { IndexSearches } from '../search/index-searches.ts'
import type { SearchedPoints } from '../search/searched-points.ts'
import type { LivePoints } from './live-points.ts'
import type { PointReader } from './point-reader.ts'

/** The points of a collection as its searches see them. */
export class SearchablePoints implements SearchedPoints {
  readonly ids: PointTable
  readonly attributes: AttributeIndex
  readonly #points: LivePoints
  readonly #reader: PointReader

  constructor(points: LivePoints, reader: PointReader) {
    this.ids = points.table
    this.attributes = points.attributes
    this.#points = points
    this.#reader = reader
  }

  get searches(): IndexSearches | undefined {
    return this.#points.searches
  }

  hideExpired(): void {
    this.#points.expirations.hideNow()
  }

  payload(slot: number, id: string): Payload | undefined {
    return this.#reader.payload(slot, id)
  }

  versionOf(slot: number): number {
    return this.#points.versionOf(slot)
  }
}
