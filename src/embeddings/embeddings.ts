import type { DatabaseError } from '../base/errors.ts'

/** The api's view of the embedding endpoint. */
export interface Embeddings {
  /** EMBEDDINGS_MODEL. */
  readonly model: string
  /** EMBEDDINGS_MAX_TEXT_BYTES. */
  readonly maxTextBytes: number
  /**
   * The embedding of each text, in their order; an error in place of a text that the endpoint refuses.
   *
   * @throws DatabaseError `embeddings_unavailable` if the endpoint does not answer as it should; `overloaded` and
   *   `request_too_large` for more texts than EMBEDDINGS_MAX_TEXTS; the cancellation of `signal`
   */
  embed(texts: readonly string[], signal?: AbortSignal): Promise<readonly Embedding[]>
}

/** A vector of finite float32 values; or why the endpoint refused the text. */
export type Embedding = Float32Array | DatabaseError
