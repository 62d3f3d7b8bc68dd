import type { DatabaseError } from '../base/errors.ts'

/** The api's view of the embedding endpoint. */
export interface Embeddings {
  /** EMBEDDINGS_MODEL. */
  readonly model: string
  /** The longest text that is embedded. */
  readonly maxTextBytes: number
  /**
   * Returns the embeddings in the order of the texts. A text that the endpoint refuses has an error instead.
   *
   * @throws DatabaseError `embeddings_unavailable` if the endpoint fails or its answer is unusable; `overloaded` or
   *   `request_too_large` for more texts than may wait; the cancellation of `signal`
   */
  embed(texts: readonly string[], signal?: AbortSignal): Promise<readonly Embedding[]>
}

/** A vector of finite float32 values, or the reason why the endpoint refused the text. */
export type Embedding = Float32Array | DatabaseError
