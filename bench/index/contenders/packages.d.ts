/**
 * Declares the parts of the libraries under test that the benchmark calls. Their packages are installed only when the
 * benchmark runs, but it is always type-checked.
 */
declare module 'hnswlib-node' {
  export interface HierarchicalNSW {
    initIndex(options: { maxElements: number; m: number; efConstruction: number; randomSeed: number }): void
    addPoint(point: number[], label: number): void
    searchKnn(
      query: number[],
      k: number,
      filter?: (label: number) => boolean,
    ): { neighbors: number[]; distances: number[] }
    setEf(ef: number): void
    writeIndexSync(path: string): void
    readIndexSync(path: string): void
  }
  export interface Library {
    readonly HierarchicalNSW: new (space: 'l2' | 'ip' | 'cosine', dimension: number) => HierarchicalNSW
  }
}

declare module 'usearch' {
  interface Options {
    dimensions: number
    metric: string
    quantization: string
    connectivity: number
    expansion_add: number
    expansion_search: number
    multi: boolean
  }
  interface Matches {
    keys: BigUint64Array
    counts: BigUint64Array
  }
  export class Index {
    constructor(options: Options)
    add(keys: BigUint64Array, vectors: Float32Array, threads: number): void
    remove(keys: BigUint64Array): number[]
    search(queries: Float32Array, k: number, threads: number): Matches
    save(path: string): void
    load(path: string): void
  }
}

declare module '@zvec/zvec' {
  interface Query {
    fieldName: string
    vector: Float32Array
    topk: number
    outputFields: string[]
    filter?: string
    params: { indexType: number; ef: number; isUsingRefiner: boolean }
  }
  interface Collection {
    insertSync(
      documents: {
        id: string
        vectors: Record<string, Float32Array>
        fields?: Record<string, string | number>
      }[],
    ): { ok: boolean }[]
    optimizeSync(options: { concurrency: number }): void
    querySync(query: Query): { id: string }[]
    query(query: Query): Promise<{ id: string }[]>
    closeSync(): void
  }
  export class ZVecCollectionSchema {
    constructor(schema: {
      name: string
      vectors: {
        name: string
        dataType: number
        dimension: number
        indexParams: {
          indexType: number
          metricType: number
          m: number
          efConstruction: number
          quantizeType: number
        }
      }
      fields?: { name: string; dataType: number; indexParams: { indexType: number } }[]
    })
  }
  export const ZVecDataType: {
    readonly VECTOR_FP32: number
    readonly DOUBLE: number
    readonly STRING: number
  }
  export const ZVecIndexType: { readonly HNSW: number; readonly INVERT: number }
  export const ZVecMetricType: { readonly L2: number; readonly COSINE: number }
  export const ZVecQuantizeType: { readonly UNDEFINED: number; readonly INT8: number }
  export const ZVecLogLevel: { readonly ERROR: number }
  export function ZVecInitialize(options: {
    logLevel: number
    queryThreads: number
    optimizeThreads: number
  }): void
  export function ZVecCreateAndOpen(path: string, schema: ZVecCollectionSchema): Collection
  export function ZVecOpen(path: string): Collection
}
