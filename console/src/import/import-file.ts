import type { NewPoint } from '../api/types.ts'
import type { Job, RowFault } from './messages.ts'
import { pointOf } from './point.ts'
import type { RowSource } from './rows.ts'
import { type Item, Sender } from './sender.ts'

/** A batch ends when it reaches one of these limits: well below the server's default of 64 MiB per request. */
const batchPoints = 500
const batchNumbers = 256 * 1024
const batchCharacters = 4 * 1024 * 1024

export interface ImportEvents {
  readonly onFault: (fault: RowFault) => void
  readonly onWaiting: (reason: string | undefined) => void
  /** Called when all rows up to `place` are stored or reported as faulty. */
  readonly onStored: (done: {
    readonly stored: number
    readonly place: number
    readonly endBytes: number
  }) => void
  /** Resolves when the import may continue. */
  readonly whilePaused: () => Promise<void>
}

interface Batch {
  readonly items: readonly Item[]
  readonly place: number
  readonly endBytes: number
}

/**
 * Stores the rows of a file batch by batch. Reports bad rows and stores the others. The next batch is read while the
 * current one is being stored, so two batches are in memory.
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
      // The next iteration awaits the batch and gets the error. This handler only prevents an unhandled rejection.
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
