import { bytes, integer, mebibyte, milliseconds } from './kinds.ts'
import type { Row } from './row.ts'

export class BoundSettings {
  readonly maxLimit: Row<number> = integer(1, 1_000_000, {
    default: 16_384,
    doc: 'Largest `limit` a search may ask for.',
  })

  readonly maxRequestBytes: Row<number> = bytes(1024, 1024 * mebibyte, {
    default: 64 * mebibyte,
    doc: 'Largest request on either transport.',
  })

  readonly requestTimeoutMs: Row<number> = milliseconds(100, 3_600_000, {
    default: 60_000,
    doc: 'Time a client has to send a whole request, headers and body, and then to take in the whole answer, of a snapshot each part.',
  })

  readonly maxBufferedBytes: Row<number> = bytes(1, 64 * 1024 * mebibyte, {
    default: 256 * mebibyte,
    doc: 'Memory for calls under way. It bounds three things, each on its own: requests that are arriving, being decoded or searched for; changes that wait for the disk; and answers that clients have not taken in yet. More is refused as overload. Of the requests and of the answers, three quarters are for those larger than 1 MiB, one of which is always let in when no other is there.',
  })

  readonly maxQueuedQueries: Row<number> = integer(1, 10_000_000, {
    default: 20_000,
    doc: 'Queries, those of batches counted singly, that may be waiting or running; more are refused as overload.',
  })

  readonly maxQueuedResults: Row<number> = integer(1, 100_000_000, {
    default: 500_000,
    doc: 'Ids that all searches under way may bring together, each query counted with its limit; a search that alone asks for more is refused as too large, others as overload. MAX_LIMIT is always let through.',
  })

  readonly maxOpenCollections: Row<number> = integer(1, 100_000, {
    default: 256,
    doc: 'Named collections whose points may be in memory at once. Beyond it those that nobody uses are closed, and opened again when somebody does.',
  })

  readonly maxIdempotencyKeys: Row<number> = integer(1, 1_000_000_000, {
    default: 1_000_000,
    doc: 'Idempotency keys that each collection keeps, for 24 hours: about 160 bytes on disk each, none of it in memory; the oldest are forgotten for new ones. Where points have ids of their own or are refused, a key takes more: 1 byte for a point with a new id, 17 for one with its own id, the text of its error for a refused one; above 2,000 bytes whole pages of 4 KiB, at most 1 MiB.',
  })

  readonly maxIdempotencyBytes: Row<number> = bytes(2 * mebibyte, Number.MAX_SAFE_INTEGER, {
    default: 512 * mebibyte,
    doc: 'Disk space that the idempotency keys of a collection may take together, as MAX_IDEMPOTENCY_KEYS counts it; beyond it, the oldest are forgotten for new ones.',
  })
}
