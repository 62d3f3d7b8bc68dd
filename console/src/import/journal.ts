import type { Mapping } from '../../../src/import/mapping.ts'
import type { SampledPoint } from './messages.ts'

/** How far the import of a file got: it resumes after the page was closed, and is not repeated by mistake. */
export interface JournalEntry {
  readonly importId: string
  readonly mapping: Mapping
  readonly startedMs: number
  /** The last row that was processed. */
  readonly place: number
  readonly stored: number
  readonly atMs: number
  readonly sample: readonly SampledPoint[]
  readonly isFinished: boolean
}

/** The number changes with the form of an entry. */
const prefix = 'vicinal-import-2 '
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

/** Adds a point to a sample. Of too many, every other one stays, and always the last: a spread over the file. */
export function sampleWith(
  sample: readonly SampledPoint[],
  point: SampledPoint | undefined,
): readonly SampledPoint[] {
  if (point === undefined) return sample
  const added = [...sample, point]
  return added.length <= sampleMax ? added : added.filter((_, index) => (added.length - index) % 2 === 1)
}

/** The ids of the points that have not expired, also if the clock of the server is a little ahead. */
export function lastingIds(sample: readonly SampledPoint[]): readonly string[] {
  const soonUs = (Date.now() + 60_000) * 1000
  return sample
    .filter(({ expiresAtUs = Number.POSITIVE_INFINITY }) => expiresAtUs > soonUs)
    .map(({ id }) => id)
}

const sampleMax = 16

function oldestBeyond(count: number): readonly string[] {
  const names = Object.keys(localStorage).filter((name) => name.startsWith(prefix))
  return names
    .map((name) => ({ name, atMs: readJournal(name)?.atMs ?? 0 }))
    .sort((a, b) => b.atMs - a.atMs)
    .slice(count)
    .map(({ name }) => name)
}
