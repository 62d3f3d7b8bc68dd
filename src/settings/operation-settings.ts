import { integer, milliseconds, oneOf } from './kinds.ts'
import type { Row } from './row.ts'

export class OperationSettings {
  readonly logFormat: Row<'auto' | 'json' | 'pretty'> = oneOf(['auto', 'json', 'pretty'], {
    default: 'auto',
    doc: '`auto` is pretty on a terminal and JSON lines elsewhere.',
  })

  readonly slowQueryMs: Row<number> = milliseconds(0, 3_600_000, {
    default: 100,
    doc: 'Searches, lists, counts, facets and changes by filter that take at least this long are kept for an hour, with their metric, limit, ef, filter and plan, but without vectors; `GET /slow-queries` lists them.',
  })

  readonly slowQueriesKept: Row<number> = integer(0, 1000, {
    default: 50,
    doc: 'How many of the slowest requests are kept for each collection; 0 keeps none.',
  })

  readonly shutdownTimeoutMs: Row<number> = milliseconds(0, 600_000, {
    default: 5_000,
    doc: 'Time that running requests have to end after SIGTERM or SIGINT. Idle HTTP connections stay open for a tenth of it, at most 2 s: requests that arrive on them are refused with 503, not cut off.',
  })
}
