import { AttributeIndex } from '../../src/attributes/attribute-index.ts'
import type { AttributeValue } from '../../src/base/attributes.ts'
import type { Filter } from '../../src/base/filter.ts'
import type { SearchResults } from '../../src/base/id-lists.ts'
import { idBytes, idFromBytes, writeIdBytes } from '../../src/base/ids.ts'
import { newId } from '../../src/base/partitions.ts'
import type { Payload, SearchQuery } from '../../src/base/point.ts'
import { scalarDistance } from '../../src/kernels/scalar.ts'
import type { ReadCall } from '../../src/points/database.ts'
import { IdTable } from '../../src/points/id-table.ts'
import { CollectionSearch, resultBudget } from '../../src/search/collection-search.ts'
import type { IndexSearches } from '../../src/search/index-searches.ts'
import type { SearchedPoints } from '../../src/search/query-planner.ts'
import { IndexFixture } from './index-fixture.ts'

/** The test's copy of a point. */
export interface HeldPoint {
  readonly id: string
  readonly slot: number
  readonly vector: Float32Array
  readonly payload: Payload
  readonly sequence: number
}

/** A collection without a disk: provides what searches need, over points that the test also holds. */
export class SearchedPointsFixture implements SearchedPoints, AsyncDisposable {
  readonly fixture: IndexFixture
  readonly ids: IdTable = new IdTable()
  readonly attributes: AttributeIndex
  readonly search: (queries: readonly SearchQuery[], call?: ReadCall) => Promise<SearchResults>
  /** By id. */
  readonly held: Map<string, HeldPoint> = new Map()
  /** Ids of points that expire when they are next read. */
  readonly due: string[] = []
  #version = 0

  constructor(
    dimension: number,
    options: ConstructorParameters<typeof IndexFixture>[1] & {
      readonly journalLength?: number
      readonly maxDetailBytes?: number
    } = {},
  ) {
    const { journalLength, maxDetailBytes = 1_000_000, ...rest } = options
    this.fixture = new IndexFixture(dimension, rest)
    this.attributes = new AttributeIndex({
      findSlot: (bytes, at) => this.ids.find(idFromBytes(bytes, at)),
      copyId: (slot, target, at) => this.ids.copyId(slot, target, at),
      journalLength,
    })
    const results = resultBudget({ max: 100_000 }).share()
    const searcher = new CollectionSearch({ points: this, results, maxDetailBytes })
    this.search = (queries, call) => searcher.search(queries, call)
  }

  get searches(): IndexSearches | undefined {
    return this.held.size === 0 && this.#version === 0 ? undefined : this.fixture.searches
  }

  get start(): number {
    return this.attributes.journal.position
  }

  hideExpired(): void {
    for (const id of this.due.splice(0)) this.remove(id)
  }

  payload(slot: number, id: string): Payload | undefined {
    const point = this.held.get(id)
    return point?.slot === slot ? point.payload : undefined
  }

  canMatch(slot: number, filter: Filter | undefined): boolean {
    return this.fixture.index.isLive(slot) && (filter === undefined || this.attributes.matches(filter, slot))
  }

  versionOf(slot: number): number {
    return this.attributes.versionOf(slot)
  }

  insert(vector: Float32Array, attributes: Readonly<Record<string, AttributeValue>>): string {
    const id = newId()
    this.#version += 1
    const slot = this.fixture.insert(vector)
    const bytes = new Uint8Array(idBytes)
    writeIdBytes(id, bytes, 0)
    this.ids.set(slot, bytes)
    this.#hold(id, slot, vector, attributes)
    return id
  }

  /** Changes the attributes of a point. */
  patch(id: string, attributes: Readonly<Record<string, AttributeValue>>): void {
    const { slot, vector } = this.held.get(id)!
    this.#hold(id, slot, vector, attributes)
  }

  /** Changes the vector of a point, which moves it to another slot. */
  move(id: string, vector: Float32Array): void {
    const point = this.held.get(id)!
    const { indexer, index, points } = this.fixture
    const to = this.fixture.free.pop() ?? index.slotCount
    this.#version += 1
    this.ids.delete(point.slot)
    this.attributes.delete(point.slot)
    index.replace(point.slot, to, vector, this.fixture.nextSequence())
    points.delete(point.slot)
    points.set(to, vector)
    indexer.removed(point.slot)
    indexer.inserted(to)
    const bytes = new Uint8Array(idBytes)
    writeIdBytes(id, bytes, 0)
    this.ids.set(to, bytes)
    this.#hold(id, to, vector, Object.fromEntries(point.payload.attributes ?? []))
  }

  remove(id: string): void {
    const { slot } = this.held.get(id)!
    this.held.delete(id)
    this.attributes.delete(slot)
    this.ids.delete(slot)
    this.fixture.remove(slot)
  }

  #hold(
    id: string,
    slot: number,
    vector: Float32Array,
    attributes: Readonly<Record<string, AttributeValue>>,
  ): void {
    const payload: Payload = {
      contentType: 'Text',
      content: `content of ${id}`,
      attributes: new Map(Object.entries(attributes)),
    }
    this.#version += 1
    this.attributes.set(slot, { payload, version: this.#version })
    const sequence = this.fixture.index.sequenceOf(slot)
    this.held.set(id, { id, slot, vector, payload, sequence })
  }

  /** The expected results of a query, computed from the definition of the distance. */
  expected(
    { vector, metric, limit, maxDistance = Number.POSITIVE_INFINITY }: SearchQuery,
    matches: (point: HeldPoint) => boolean = () => true,
  ): { readonly id: string; readonly distance: number }[] {
    const near = typeof vector === 'string' ? this.held.get(vector)!.vector : vector
    const distanceOf = (stored: Float32Array): number => {
      const distance = scalarDistance(metric, near, stored)
      return metric === 'Euclidean' ? Math.sqrt(distance) : distance
    }
    return [...this.held.values()]
      .filter((point) => point.id !== vector && matches(point))
      .map((point) => ({ ...point, distance: distanceOf(point.vector) }))
      .filter(({ distance }) => distance <= maxDistance)
      .sort((a, b) => a.distance - b.distance || a.sequence - b.sequence)
      .slice(0, limit)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.fixture.close()
  }
}

/** A filter for points whose number at a path is below a bound. */
export function below(path: string, bound: number): Filter {
  return { kind: 'condition', path, test: { op: 'range', bounds: { lt: bound } } }
}
