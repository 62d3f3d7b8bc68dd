import { DatabaseError } from '../base/errors.ts'
import type { DataStore, Store } from '../storage/store.ts'

/**
 * A log that was lost is followed by a new one, which begins with what one node holds:
 *
 *   the former log   1 ... 900 ┆ lost
 *   the new one                          1 049 477 ...    its first position is above all that were given out
 *
 * So positions that clients have, and sequence numbers, which follow from positions, go on growing. The node takes the
 * new log for the one that it has applied, up to the position before the first; all others fetch what it holds.
 */

/** Positions that are left out between two logs: as many could be known of a node that nobody could ask. */
export const skippedPositions: number = 2 ** 20

/** How far the data of a directory are, of which the log is lost: the last record that any collection has applied. */
export async function reachOf(data: DataStore): Promise<number> {
  let reach = data.main.applied?.position ?? 0
  await eachNamed(data, async ({ applied }) => {
    reach = Math.max(reach, applied?.position ?? 0)
  })
  return Math.max(reach, data.main.applied?.floor ?? 0)
}

/**
 * Names the log that the data of a directory are from.
 *
 * @throws DatabaseError `precondition_failed` when they cannot be what a new log begins with
 */
export function logIdIn({ main }: DataStore): string {
  if (main.applied === undefined) throw refused('it has not applied any log')
  if (main.applied.held !== undefined) throw refused('it has a part of the points only')
  return main.applied.logId
}

/** Makes what a directory holds the beginning of a new log; durable when this resolves, and harmless to repeat. */
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
  // Last, since a start looks at this one.
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
