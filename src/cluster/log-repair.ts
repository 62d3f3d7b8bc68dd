import { DatabaseError } from '../base/errors.ts'
import type { DataStore, Store } from '../storage/store.ts'

/**
 * A lost log is followed by a new one, which begins with the data of one node:
 *
 *   the former log   1 ... 900 ┆ lost
 *   the new one                          1 049 477 ...    its first position is above all that were assigned
 *
 * So the positions that clients hold keep growing, and so do sequence numbers, which follow from positions. That node
 * stores that it has applied the new log up to the position before the first. All others fetch its data.
 */

/**
 * Positions skipped between two logs. A node that could not be asked may know this many more positions of the lost
 * log.
 */
export const skippedPositions: number = 2 ** 20

/**
 * The short id of the log that the data of a directory come from.
 *
 * @throws DatabaseError `precondition_failed` when a new log cannot begin with these data
 */
export function logIdIn({ main }: DataStore): string {
  if (main.applied === undefined) throw refused('it has not applied any log')
  if (main.applied.held !== undefined) throw refused('it holds only some of the points')
  return main.applied.logId
}

/** Makes the data of a directory the beginning of a new log. Durable when this resolves; idempotent. */
export async function adoptLog(
  data: DataStore,
  { logId, first }: { readonly logId: string; readonly first: number },
): Promise<void> {
  const { main } = data
  let clockUs = Math.max(main.applied?.clockUs ?? 0, main.applied?.floorClockUs ?? 0)
  await eachNamed(data, async ({ applied }) => {
    clockUs = Math.max(clockUs, applied?.clockUs ?? 0)
  })
  const position = first - 1
  const place = { logId, position, floor: position, clockUs, floorClockUs: clockUs }
  const adopt = async (store: Store): Promise<void> => {
    const { applied } = store
    if (applied !== undefined)
      await store.commit({ changes: [], slots: [], applied: { ...applied, ...place } })
  }
  await eachNamed(data, adopt)
  // The default collection comes last, since a start looks at it.
  await adopt(main)
}

async function eachNamed(data: DataStore, use: (store: Store) => Promise<void>): Promise<void> {
  for (const { number } of data.collections.values()) {
    const store = await data.open(number)
    try {
      await use(store)
    } finally {
      await store.close()
    }
  }
}

function refused(why: string): DatabaseError {
  return new DatabaseError('precondition_failed', `a new log cannot begin with what this node holds: ${why}`)
}
