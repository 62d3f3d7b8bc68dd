import { bytes, endpointUrl, integer, key, mebibyte, milliseconds, text } from './kinds.ts'
import type { Row } from './row.ts'

export class EmbeddingSettings {
  readonly embeddingsUrl: Row<string | undefined> = endpointUrl({
    defaultText: 'none: texts are not embedded',
    doc: 'Base URL of an endpoint that embeds texts as OpenAI does, like `http://127.0.0.1:8080/v1`: `/embeddings` is added. With it, inserts and searches may have a text in place of a vector. Needs EMBEDDINGS_MODEL.',
  })

  readonly embeddingsModel: Row<string | undefined> = text('name', {
    default: undefined,
    doc: 'Name of the model, as the endpoint knows it. The vectors of one collection have to come from one model: after a change, store them again.',
  })

  readonly embeddingsApiKey: Row<string | undefined> = key({
    doc: 'Key that the endpoint demands, sent as `authorization: Bearer`. Prefer the environment: a flag shows in the process list.',
  })

  readonly embeddingsBatchSize: Row<number> = integer(1, 2048, {
    default: 32,
    doc: 'The most texts in one request to the endpoint.',
  })

  readonly embeddingsMaxRequests: Row<number> = integer(1, 256, {
    default: 4,
    doc: 'Requests to the endpoint at the same time; texts of further calls wait, and are sent together.',
  })

  readonly embeddingsTimeoutMs: Row<number> = milliseconds(100, 300_000, {
    default: 60_000,
    doc: 'Time the endpoint has for the texts of one request, retries included.',
  })

  readonly embeddingsMaxTexts: Row<number> = integer(1, 1_000_000, {
    default: 10_000,
    doc: 'Texts that may wait or be embedded at once: a call with more is refused as too large, further calls as overload.',
  })

  readonly embeddingsMaxTextBytes: Row<number> = bytes(1, 16 * mebibyte, {
    default: 64 * 1024,
    doc: 'The longest text that is embedded. Models have limits of their own, and some ignore what is beyond them.',
  })

  readonly embeddingsCacheBytes: Row<number> = bytes(0, 64 * 1024 * mebibyte, {
    default: 64 * mebibyte,
    doc: 'Memory for embeddings of the texts used last, which are not sent again. 0 keeps none.',
  })
}
