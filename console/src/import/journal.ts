import type { Mapping } from '../../../src/import/mapping.ts'
import type { SampledPoint } from '../../../src/import/points.ts'
import type { RowFault } from './messages.ts'

/** How far the import of a file got: it resumes after the page was closed, and is not repeated by mistake. */
export interface JournalEntry {
  readonly importId: string
  readonly mapping: Mapping
  readonly startedMs: number
  /** The last row that was processed. */
  readonly place: number
  readonly stored: number
  /** The faults up to `place` that are shown, and the number of all of them. */
  readonly faults: readonly RowFault[]
  readonly faultCount: number
  readonly atMs: number
  readonly sample: readonly SampledPoint[]
  readonly isFinished: boolean
}

/** The number changes with the form of an entry. */
const prefix = 'vicinal-import-3 '
/** The server discards idempotency keys after a day. One hour less leaves room for clock differences. */
const lifeMs = 23 * 3_600_000
const maxEntries = 20

/** The key of a file's journal: its name, size and date. A checksum of the whole file could take minutes. */
export function journalName(file: File, collection: string): string {
  return `${prefix}${JSON.stringify([collection, file.name, file.size, file.lastModified])}`
}

/** An entry that is finished, or from which an import can resume. */
export function readJournal(name: string): JournalEntry | undefined {
  try {
    const entry = JSON.parse(localStorage.getItem(name) ?? 'null') as JournalEntry | null
    if (entry === null || entry.place === 0) return undefined
    return entry.isFinished || Date.now() - entry.atMs < lifeMs ? entry : undefined
  } catch {
    // Another version wrote the entry, or storage is forbidden: treat it as missing.
    return undefined
  }
}

export function writeJournal(name: string, entry: JournalEntry): void {
  try {
    localStorage.setItem(name, JSON.stringify(entry))
    for (const old of oldestBeyond(maxEntries)) localStorage.removeItem(old)
  } catch {
    // Storage is full or forbidden: the import still works, but cannot resume later.
  }
}

export function removeJournal(name: string): void {
  try {
    localStorage.removeItem(name)
  } catch {
    // If storage is forbidden, there is no entry to remove.
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
