import { bytes, endpointUrl, integer, key, mebibyte, milliseconds, text } from './kinds.ts'
import type { Row } from './row.ts'

export class EmbeddingSettings {
  readonly embeddingsUrl: Row<string | undefined> = endpointUrl({
    defaultText: 'none: texts are not embedded',
    doc: 'Base URL of an endpoint that embeds texts like the API of OpenAI, such as `http://127.0.0.1:8080/v1`; `/embeddings` is added. With it, inserts and searches may have a text in place of a vector. Needs EMBEDDINGS_MODEL.',
  })

  readonly embeddingsModel: Row<string | undefined> = text('name', {
    default: undefined,
    doc: 'Name of the model, as the endpoint knows it. All vectors of a collection must come from one model: after a change, store them again.',
  })

  readonly embeddingsApiKey: Row<string | undefined> = key({
    doc: 'Key that the endpoint requires, sent as `authorization: Bearer`. Prefer the environment: a flag shows in the process list.',
  })

  readonly embeddingsBatchSize: Row<number> = integer(1, 2048, {
    default: 32,
    doc: 'Maximum number of texts in one request to the endpoint.',
  })

  readonly embeddingsMaxRequests: Row<number> = integer(1, 256, {
    default: 4,
    doc: 'Requests to the endpoint at the same time. Texts of further calls wait, and are sent together.',
  })

  readonly embeddingsTimeoutMs: Row<number> = milliseconds(100, 300_000, {
    default: 60_000,
    doc: 'Time that the endpoint has for the texts of one request, including retries.',
  })

  readonly embeddingsMaxTexts: Row<number> = integer(1, 1_000_000, {
    default: 10_000,
    doc: 'Texts that may be waiting or being embedded. A call with more is refused as too large, further calls as overload.',
  })

  readonly embeddingsMaxTextBytes: Row<number> = bytes(1, 16 * mebibyte, {
    default: 64 * 1024,
    doc: 'Longest text that is embedded. Models have their own limits, and some ignore what is beyond them.',
  })

  readonly embeddingsCacheBytes: Row<number> = bytes(0, 64 * 1024 * mebibyte, {
    default: 64 * mebibyte,
    doc: 'Memory for the embeddings of the most recently used texts, which are not sent again. 0 keeps none.',
  })
}
