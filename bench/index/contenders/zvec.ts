import { rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import {
  ZVecCollectionSchema,
  ZVecCreateAndOpen,
  ZVecDataType,
  ZVecIndexType,
  ZVecInitialize,
  ZVecLogLevel,
  ZVecMetricType,
  ZVecOpen,
  ZVecQuantizeType,
} from '@zvec/zvec'
import { type AttributeTable, valueAt } from '../../shared/data/attribute-table.ts'
import { rowsOf } from '../../shared/data/rows.ts'
import {
  type BuildAnswer,
  type BuildRequest,
  type Contender,
  type ContenderVariant,
  noId,
  type SearchAnswer,
  type SearchRequest,
  timed,
} from './contender.ts'
import { type FilteredAnswer, type FilteredRequest, timedQueries } from './filtered.ts'
import { versionOf } from './package-version.ts'
import { zvecFilter } from './zvec-filter.ts'

export const zvecFloat: ContenderVariant = variant('plain')
export const zvecByte: ContenderVariant = variant('quantised')

type Kind = 'plain' | 'quantised'

function variant(kind: Kind): ContenderVariant {
  const data = kind === 'plain' ? 'float32' : 'INT8 codes, its refiner on (re-ranks with float32)'
  return {
    description: {
      version: `@zvec/zvec ${versionOf('@zvec/zvec')}`,
      flags: `the prebuilt binary of its package, HNSW, L2, ${data}; insert and optimize are the build`,
      buildThreads: 'any',
      searchThreads: "its asynchronous query on Node's thread pool, one thread per core",
      distanceMetrics: ['Euclidean'],
    },
    create: (folder) => new Zvec(folder, kind),
  }
}

/** A database with a write-ahead log on disk. Its build time includes inserting, because it cannot build without it. */
class Zvec implements Contender {
  readonly #path: string
  readonly #kind: Kind
  #collection!: ReturnType<typeof ZVecOpen>
  #dimension = 0

  constructor(folder: string, kind: Kind) {
    this.#path = join(folder, 'collection')
    this.#kind = kind
  }

  async build(request: BuildRequest): Promise<BuildAnswer> {
    this.#start(request)
    rmSync(this.#path, { recursive: true, force: true })
    const rows = rowsOf(request.vectors, request.dimension)
    const { attributes = noAttributes } = request
    const fieldsOf = (row: number): Record<string, string | number> =>
      Object.fromEntries(attributes.columns.map((column) => [column.name, valueAt(column, row)]))
    const seconds = await timed(() => {
      this.#collection = ZVecCreateAndOpen(this.#path, this.#schema(request))
      for (let from = 0; from < rows.length; from += rowsAtOnce) {
        const documents = rows.slice(from, from + rowsAtOnce).map((row, place) => ({
          id: String(from + place),
          vectors: { [field]: row },
          fields: fieldsOf(from + place),
        }))
        if (this.#collection.insertSync(documents).some(({ ok }) => !ok))
          throw new Error('zvec refused a row')
      }
      this.#collection.optimizeSync({ concurrency: request.threads })
    })
    return { seconds }
  }

  async search({ queries, k, ef, threads }: SearchRequest): Promise<SearchAnswer> {
    const questions = rowsOf(queries, this.#dimension).map((vector) => this.#question(vector, k, ef))
    let found: readonly { readonly id: string }[][] = []
    const seconds = await timed(async () => {
      if (threads === 1) found = questions.map((question) => this.#collection.querySync(question))
      else found = await Promise.all(questions.map((question) => this.#collection.query(question)))
    })
    const ids = new Uint32Array(found.length * k).fill(noId)
    for (const [place, hits] of found.entries()) {
      ids.set(
        hits.map(({ id }) => Number(id)),
        place * k,
      )
    }
    return { ids, seconds }
  }

  async searchFiltered({ queries, filters, k, ef }: FilteredRequest): Promise<FilteredAnswer> {
    const conditions = filters.map(zvecFilter)
    const questions = rowsOf(queries, this.#dimension).map((vector, query) => {
      return { ...this.#question(vector, k, ef), filter: conditions[query]! }
    })
    return await timedQueries(
      questions.length,
      k,
      (query) => this.#collection.querySync(questions[query]!),
      (hits) => hits.map(({ id }) => Number(id)),
    )
  }

  async load(request: Omit<BuildRequest, 'vectors'>): Promise<void> {
    this.#start(request)
    this.#collection = ZVecOpen(this.#path)
  }

  /** Everything is on disk already. */
  async save(): Promise<void> {}

  async close(): Promise<void> {
    this.#collection.closeSync()
  }

  #start({ dimension, threads }: Omit<BuildRequest, 'vectors'>): void {
    this.#dimension = dimension
    ZVecInitialize({
      logLevel: ZVecLogLevel.ERROR,
      queryThreads: availableParallelism(),
      optimizeThreads: threads,
    })
  }

  #schema({ dimension, m, efConstruction, attributes = noAttributes }: BuildRequest): ZVecCollectionSchema {
    const { UNDEFINED, INT8 } = ZVecQuantizeType
    const indexParams = {
      indexType: ZVecIndexType.HNSW,
      metricType: ZVecMetricType.L2,
      m,
      efConstruction,
      quantizeType: this.#kind === 'plain' ? UNDEFINED : INT8,
    }
    const vectors = { name: field, dataType: ZVecDataType.VECTOR_FP32, dimension, indexParams }
    const fields = attributes.columns.map(({ name, kind }) => ({
      name,
      dataType: kind === 'number' ? ZVecDataType.DOUBLE : ZVecDataType.STRING,
      indexParams: { indexType: ZVecIndexType.INVERT },
    }))
    return new ZVecCollectionSchema({ name: 'bench', vectors, fields })
  }

  #question(vector: Float32Array, k: number, ef: number) {
    const params = { indexType: ZVecIndexType.HNSW, ef, isUsingRefiner: this.#kind === 'quantised' }
    return { fieldName: field, vector, topk: k, outputFields: [], params }
  }
}

const field = 'vector'

const noAttributes: AttributeTable = { count: 0, columns: [] }

/** zvec accepts at most 1,024 documents per call. */
const rowsAtOnce = 1000
