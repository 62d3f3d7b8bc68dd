import type { Mapping } from './mapping.ts'

/** How far the import of a file got; so that it can go on after the page was closed. */
export interface JournalEntry {
  readonly importId: string
  readonly mapping: Mapping
  /** The last row that is done with. */
  readonly place: number
  readonly stored: number
  readonly atMs: number
}

const prefix = 'vicinal-import '
/** The server forgets idempotency keys after a day; with some room for clocks that differ. */
const lifeMs = 23 * 3_600_000
const maxEntries = 20

/** A file is recognized by its name, size and date: reading all of it for a checksum could take minutes. */
export function journalName(file: File, collection: string): string {
  return `${prefix}${JSON.stringify([collection, file.name, file.size, file.lastModified])}`
}

export function readJournal(name: string): JournalEntry | undefined {
  try {
    const entry = JSON.parse(localStorage.getItem(name) ?? 'null') as JournalEntry | null
    return entry !== null && entry.place > 0 && Date.now() - entry.atMs < lifeMs ? entry : undefined
  } catch {
    // Written by another version, or storage is forbidden: as if there was none.
    return undefined
  }
}

export function writeJournal(name: string, entry: JournalEntry): void {
  try {
    localStorage.setItem(name, JSON.stringify(entry))
    for (const old of oldestBeyond(maxEntries)) localStorage.removeItem(old)
  } catch {
    // Full or forbidden: the import works, and could not go on later.
  }
}

export function removeJournal(name: string): void {
  try {
    localStorage.removeItem(name)
  } catch {
    // There is none where storage is forbidden.
  }
}

function oldestBeyond(count: number): readonly string[] {
  const names = Object.keys(localStorage).filter((name) => name.startsWith(prefix))
  return names
    .map((name) => ({ name, atMs: readJournal(name)?.atMs ?? 0 }))
    .sort((a, b) => b.atMs - a.atMs)
    .slice(count)
    .map(({ name }) => name)
}
