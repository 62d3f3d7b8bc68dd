import { bytes, integer, mebibyte, milliseconds } from './kinds.ts'
import type { Row } from './row.ts'

export class BoundSettings {
  readonly maxLimit: Row<number> = integer(1, 1_000_000, {
    default: 16_384,
    doc: 'Largest `limit` that a search may request.',
  })

  readonly maxRequestBytes: Row<number> = bytes(1024, 1024 * mebibyte, {
    default: 64 * mebibyte,
    doc: 'Largest request on either transport.',
  })

  readonly requestTimeoutMs: Row<number> = milliseconds(100, 3_600_000, {
    default: 60_000,
    doc: 'Time that a client has to send a whole request, headers and body, and then to receive the whole answer. For a snapshot, it applies to each part.',
  })

  readonly maxBufferedBytes: Row<number> = bytes(1, 64 * 1024 * mebibyte, {
    default: 256 * mebibyte,
    doc: 'Memory for calls in progress. It limits each of three kinds separately: requests that are arriving, being decoded or searched for; changes that wait for the disk; and answers, from the first point that is read for them until clients have received them: while an answer is made, its points and its encoded form both count, two bytes for each character of a point. More is refused as overload. Of the requests and of the answers, three quarters are for those larger than 1 MiB. One of these is always accepted when there is no other.',
  })

  readonly maxQueuedQueries: Row<number> = integer(1, 10_000_000, {
    default: 20_000,
    doc: 'Queries that may be waiting or running; more are refused as overload. Each query of a batch counts.',
  })

  readonly maxQueuedResults: Row<number> = integer(1, 100_000_000, {
    default: 500_000,
    doc: 'Ids that all searches in progress may return together; each query counts with its limit. A search that requests more on its own is refused as too large, others as overload. MAX_LIMIT is always accepted.',
  })

  readonly maxOpenCollections: Row<number> = integer(1, 100_000, {
    default: 256,
    doc: 'Named collections whose points may be in memory at the same time. Beyond that, unused collections are closed, and opened again when they are used.',
  })

  readonly maxIdempotencyKeys: Row<number> = integer(1, 1_000_000_000, {
    default: 1_000_000,
    doc: 'Idempotency keys that each collection keeps, for 24 hours: about 160 bytes on disk each, none of it in memory. New keys replace the oldest ones. If points have ids of their own or are refused, a key takes more: 1 byte for a point with a new id, 17 for one with its own id, the text of its error for a refused one; above 2,000 bytes, whole pages of 4 KiB, at most 1 MiB.',
  })

  readonly maxIdempotencyBytes: Row<number> = bytes(2 * mebibyte, Number.MAX_SAFE_INTEGER, {
    default: 512 * mebibyte,
    doc: 'Disk space that the idempotency keys of a collection may take together, counted as for MAX_IDEMPOTENCY_KEYS. Beyond that, new keys replace the oldest ones.',
  })
}
