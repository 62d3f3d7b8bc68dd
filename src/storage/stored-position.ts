import type { DataStore } from './store.ts'

/** The last record of a cluster's log that any collection of a data directory has stored; 0 if none. */
export function storedPosition(store: Pick<DataStore, 'main' | 'collections' | 'summary'>): number {
  const { position = 0, floor = 0 } = store.main.applied ?? {}
  let last = Math.max(position, floor)
  for (const { number } of store.collections.values()) {
    last = Math.max(last, store.summary(number).applied?.position ?? 0)
  }
  return last
}
