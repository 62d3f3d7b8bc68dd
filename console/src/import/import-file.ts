import type { NewPoint } from '../api/types.ts'
import type { Job, RowFault } from './messages.ts'
import { pointOf } from './point.ts'
import type { RowSource } from './rows.ts'
import { type Item, Sender } from './sender.ts'

/** What is sent together, as far as points are not large: well below the server's default of 64 MiB a request. */
const batchPoints = 500
const batchNumbers = 256 * 1024
const batchCharacters = 4 * 1024 * 1024

export interface ImportEvents {
  readonly onFault: (fault: RowFault) => void
  readonly onWaiting: (reason: string | undefined) => void
  /** Called when all rows up to one are done with. */
  readonly onStored: (done: {
    readonly stored: number
    readonly place: number
    readonly endBytes: number
  }) => void
  /** Settles when the import may go on. */
  readonly whilePaused: () => Promise<void>
}

interface Batch {
  readonly items: readonly Item[]
  readonly place: number
  readonly endBytes: number
}

/**
 * Stores the rows of a file, batch by batch; a bad row is noted, and the others are stored. The next batch is read while
 * one is under way, so there are two in memory.
 */
export async function importFile(
  source: RowSource,
  job: Job,
  events: ImportEvents,
  signal: AbortSignal,
): Promise<void> {
  const sender = new Sender(
    job,
    {
      onRefused: (place, message) => events.onFault({ place, message }),
      onWaiting: events.onWaiting,
    },
    signal,
  )
  const store = async ({ items, place, endBytes }: Batch): Promise<void> => {
    const stored = await sender.store(items)
    events.onStored({ stored, place, endBytes })
  }
  let underWay = Promise.resolve()
  try {
    for await (const batch of batchesOf(source, job, events.onFault)) {
      await underWay
      await events.whilePaused()
      signal.throwIfAborted()
      underWay = store(batch)
      // It is awaited with the next batch; until then its failure is not unhandled.
      underWay.catch(() => undefined)
    }
  } finally {
    await underWay
  }
}

async function* batchesOf(
  source: RowSource,
  job: Job,
  onFault: (fault: RowFault) => void,
): AsyncGenerator<Batch> {
  let items: Item[] = []
  let numbers = 0
  let characters = 0
  let place = 0
  let endBytes = 0
  for await (const row of source.rows()) {
    if (row.place <= job.after) continue
    place = row.place
    endBytes = row.endBytes
    const outcome =
      'fault' in row ? row : pointOrFault(() => pointOf(row.record, job.mapping, source.isTyped))
    if ('fault' in outcome) {
      onFault({ place, message: outcome.fault })
      continue
    }
    items.push({ place, point: outcome.point })
    numbers += outcome.point.vector?.length ?? 0
    characters += outcome.point.payload.content.length
    if (items.length < batchPoints && numbers < batchNumbers && characters < batchCharacters) continue
    yield { items, place, endBytes }
    items = []
    numbers = 0
    characters = 0
  }
  if (place > job.after) yield { items, place, endBytes }
}

function pointOrFault(make: () => NewPoint): { readonly point: NewPoint } | { readonly fault: string } {
  try {
    return { point: make() }
  } catch (error) {
    return { fault: (error as Error).message }
  }
}
