import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Metric } from '../../src/base/point.ts'
import type { Diagnosis } from '../../src/collections/doctor.ts'
import { readConfig } from '../../src/config.ts'
import type { CollectionStats } from '../../src/points/database.ts'
import { examineData } from '../../src/service/stored-data.ts'
import { type OpenedCollection, openCollection } from '../support/collection.ts'
import { insertIds } from '../support/insert-ids.ts'

const payload = { contentType: 'Text', content: '' } as const
const pointsPerInsert = 500

/** The real engine over a real store in a temporary directory, with points identified by number. */
export class Collection implements AsyncDisposable {
  readonly #points: readonly Float32Array[]
  readonly #dataDir: string
  readonly #idOf: string[] = []
  readonly #numberOf = new Map<string, number>()
  #opened!: OpenedCollection

  /** Use `Collection.create`. */
  constructor(points: readonly Float32Array[], dataDir: string) {
    this.#points = points
    this.#dataDir = dataDir
  }

  /** Stores and links all points. */
  static async create(points: readonly Float32Array[]): Promise<Collection> {
    const collection = new Collection(points, await mkdtemp(join(tmpdir(), 'vicinal-recall-')))
    await collection.#open()
    await collection.insert([...points.keys()])
    await collection.settled()
    return collection
  }

  get stats(): CollectionStats {
    return this.#opened.collection.stats
  }

  /** Numbers of the nearest points of each query. An ef of millions causes an exact scan. */
  async search(
    queries: readonly Float32Array[],
    metric: Metric,
    limit: number,
    ef: number,
  ): Promise<(readonly number[])[]> {
    const found = await this.#opened.collection.search(
      queries.map((vector) => ({ vector, metric, limit, ef })),
    )
    return found.ids.strings().map((ids) =>
      ids.map((id) => {
        const number = this.#numberOf.get(id)
        if (number === undefined) throw new Error(`a search found ${id}, which was deleted or never stored`)
        return number
      }),
    )
  }

  async insert(numbers: readonly number[]): Promise<void> {
    for (let at = 0; at < numbers.length; at += pointsPerInsert) {
      const some = numbers.slice(at, at + pointsPerInsert)
      const ids = await insertIds(
        this.#opened.collection,
        some.map((number) => ({ vector: this.#points[number]!, payload })),
      )
      for (const [index, number] of some.entries()) {
        this.#idOf[number] = ids[index]!
        this.#numberOf.set(ids[index]!, number)
      }
    }
  }

  async remove(numbers: readonly number[]): Promise<void> {
    await Promise.all(
      numbers.map(async (number) => {
        if (!(await this.#opened.collection.remove(this.#idOf[number]!)))
          throw new Error(`point ${number} was lost`)
        this.#numberOf.delete(this.#idOf[number]!)
      }),
    )
  }

  /** Waits until all graphs are built and every metric has a route. */
  async settled(): Promise<void> {
    while (this.stats.isSettling) await sleep(50)
  }

  /** Stops, examines the stored data and the complete graphs, and starts again. */
  async restart(): Promise<Diagnosis> {
    await this.#opened.close()
    const diagnosis = await examineData(readConfig({ DATA_DIR: this.#dataDir }))
    await this.#open()
    await this.settled()
    return diagnosis
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.close()
    await rm(this.#dataDir, { recursive: true })
  }

  async #open(): Promise<void> {
    this.#opened = await openCollection(this.#dataDir, { ...readConfig({}), graphBytesMin: 0 })
  }
}
