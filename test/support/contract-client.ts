import type { ContentType, Metric } from '../../src/base/point.ts'

/** A point with only the fields of the contract. */
export interface ContractPoint {
  readonly vector: ArrayLike<number>
  readonly payload: { readonly contentType: ContentType; readonly content: string }
}

export interface ContractQuery {
  readonly vector: ArrayLike<number>
  readonly metric: Metric
  readonly limit: number
  readonly ef?: number
}

/** The operations of the contract, over a transport or in process. */
export interface ContractClient {
  insert(point: ContractPoint): Promise<string>
  insertBatch(points: readonly ContractPoint[]): Promise<readonly string[]>
  get(id: string): Promise<ContractPoint & { readonly id: string; readonly vector: Float32Array }>
  delete(id: string): Promise<void>
  search(query: ContractQuery): Promise<readonly string[]>
  searchBatch(queries: readonly ContractQuery[]): Promise<readonly (readonly string[])[]>
  close(): Promise<void>
}
