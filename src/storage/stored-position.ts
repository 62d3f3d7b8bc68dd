import { Turn } from '../base/turns.ts'
import type { DataStore } from './store.ts'

/**
 * Returns the last record of a cluster's log that any collection of a data directory has stored; 0 if none. Nothing may
 * change the collections meanwhile.
 */
export async function storedPosition(
  store: Pick<DataStore, 'main' | 'collections' | 'summary'>,
): Promise<number> {
  const { position = 0, floor = 0 } = store.main.applied ?? {}
  let last = Math.max(position, floor)
  const turn = new Turn()
  for (const { number } of store.collections.values()) {
    last = Math.max(last, store.summary(number).applied?.position ?? 0)
    if (turn.isOver) await turn.next()
  }
  return last
}
