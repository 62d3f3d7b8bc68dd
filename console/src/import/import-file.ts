import type { Table } from '../../../src/import/file.ts'
import { columnsUsed } from '../../../src/import/mapping.ts'
import { type Outcome, PointMaker, type SampledPoint } from '../../../src/import/points.ts'
import type { Job, RowFault } from './messages.ts'
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
    readonly last: SampledPoint | undefined
    readonly place: number
    readonly endBytes: number
    /** The number of faults up to `place`. Those of the next batch are reported while this one is being stored. */
    readonly faultCount: number
  }) => void
  /** Resolves when the import may continue. */
  readonly whilePaused: () => Promise<void>
}

interface Batch {
  readonly items: readonly Item[]
  readonly place: number
  readonly endBytes: number
  /** The number of rows up to `place` that are not points. */
  readonly faultCount: number
}

/**
 * Stores the rows of a file batch by batch. Reports bad rows and stores the others. The next batch is read while the
 * current one is being stored, so two batches are in memory.
 *
 * @returns the columns that are not stored, with their numbers of rows
 */
export async function importFile(
  table: Table,
  job: Job,
  events: ImportEvents,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, number>> {
  let refused = 0
  const sender = new Sender(
    job,
    {
      onRefused: (place, message) => {
        refused++
        events.onFault({ place, message })
      },
      onWaiting: events.onWaiting,
    },
    signal,
  )
  const store = async ({ items, place, endBytes, faultCount }: Batch): Promise<void> => {
    const ids = await sender.store(items)
    const id = ids.at(-1)
    const last = id === undefined ? undefined : { id, expiresAtUs: items.at(-1)!.point.payload.expiresAtUs }
    events.onStored({ stored: ids.length, last, place, endBytes, faultCount: faultCount + refused })
  }
  const notStored = new Map<string, number>()
  const { isText } = table
  const maker = new PointMaker(job.mapping, { isText, startedMs: job.startedMs }, notStored)
  let underWay = Promise.resolve()
  try {
    for await (const batch of batchesOf(table, maker, job, events.onFault)) {
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
  return notStored
}

async function* batchesOf(
  table: Table,
  maker: PointMaker,
  job: Job,
  onFault: (fault: RowFault) => void,
): AsyncGenerator<Batch> {
  let items: Item[] = []
  let numbers = 0
  let characters = 0
  let place = 0
  let endBytes = 0
  let faultCount = 0
  for await (const row of table.rows('all', columnsUsed(job.mapping))) {
    // Also for rows that are stored: the columns that are not stored are counted in the whole file.
    const outcome: Outcome = maker.make(row)
    if (row.place <= job.after) continue
    place = row.place
    endBytes = row.endBytes
    if (outcome.fault !== undefined) {
      faultCount++
      onFault({ place, message: outcome.fault })
      continue
    }
    items.push({ place, point: outcome.point })
    numbers += outcome.point.vector.length
    characters += outcome.point.payload.content.length
    if (items.length < batchPoints && numbers < batchNumbers && characters < batchCharacters) continue
    yield { items, place, endBytes, faultCount }
    items = []
    numbers = 0
    characters = 0
  }
  if (place > job.after) yield { items, place, endBytes, faultCount }
}
