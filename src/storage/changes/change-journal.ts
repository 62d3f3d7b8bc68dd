import {
  closeSync,
  existsSync,
  fdatasyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs'
import { type FileHandle, open, readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { RootDatabase } from 'lmdb'
import { DatabaseError } from '../../base/errors.ts'
import { syncDirectory } from '../../base/files.ts'
import { idBytes, idFromBytes, writeIdBytes } from '../../base/ids.ts'
import { newId } from '../../base/partitions.ts'
import { changesPath } from '../files/data-directory.ts'
import type { ChangesChoice, JournalPlace, JournalRange } from '../store.ts'
import { openShared, Table } from '../table.ts'
import { encodeRange } from './change-format.ts'

/**
 * The journal of what is committed after a backup, until the next backup stores it: files in DATA_DIR/changes, each
 * named after the journal and the place of its first byte. On the writer thread, within the transaction of each commit:
 *
 *   records ─> fdatasync ─> tables of the group and the place after the records ─> LMDB's fsync
 *
 * A crash before the end of the transaction leaves bytes after the place, which the next start cuts off; so the journal
 * has exactly what was committed. Each commit of the environment, also one without records, must go through `append`:
 * the place has the number of the last transaction, so the start notices what another program has committed.
 *
 * It never makes a write fail. When it is full, damaged or cannot be written, it ends, and its files are removed: the
 * moments up to the next backup, which begins another journal, cannot be restored.
 */
export class ChangeJournal {
  readonly #directory: string
  /** Has the place: see `encodePlace`. */
  readonly #table: Table
  readonly #bytesMax: number
  readonly #transactionNumber: () => number
  readonly #onEnd: (reason: string) => void
  /** After the last commit; undefined if no changes are kept. */
  #end: JournalEnd | undefined
  /** After the commit in progress. */
  #next: JournalEnd | undefined
  /** The oldest place that is kept. */
  #start = 0
  #file: { readonly descriptor: number; readonly start: number } | undefined

  /**
   * @param transactionNumber of the last transaction that was committed
   * @param onEnd called with the reason when the journal has ended by itself
   */
  constructor(
    dataDir: string,
    table: Table,
    bytesMax: number,
    transactionNumber: () => number,
    onEnd: (reason: string) => void,
  ) {
    this.#directory = changesPath(dataDir)
    this.#table = table
    this.#bytesMax = bytesMax
    this.#transactionNumber = transactionNumber
    this.#onEnd = onEnd
    const value = table.getBinary(placeKey)
    this.#end = value && decodePlace(value)
    this.#removeFiles(this.#end?.id)
    if (this.#end !== undefined) this.#recover(this.#end)
  }

  /** Cuts off what was not committed. */
  #recover(end: JournalEnd): void {
    try {
      if (end.transaction !== this.#transactionNumber())
        throw new Error('another program has written to the data directory')
      const files = filesIn(readdirIn(this.#directory), end.id).filter((start) => {
        if (start >= end.at) rmSync(this.#pathOf(start, end.id))
        return start < end.at
      })
      this.#start = files[0] ?? end.at
      for (const [index, start] of files.entries()) {
        const next = files[index + 1] ?? end.at
        const path = this.#pathOf(start, end.id)
        const { size } = statSync(path)
        if (start + size < next) throw new Error(`${path} is cut off`)
        if (start + size > next) truncateSync(path, next - start)
      }
      const last = files.at(-1)
      // Otherwise, each start would add a file.
      if (last !== undefined)
        this.#file = { descriptor: openSync(this.#pathOf(last, end.id), 'r+'), start: last }
    } catch (error) {
      this.end((error as Error).message)
    }
  }

  /** The disk space that it takes; undefined if no changes are kept. */
  get bytes(): number | undefined {
    return this.#end && this.#end.at - this.#start
  }

  /** The time of the commit in progress: never before that of an earlier one. */
  get #timeMs(): number {
    return Math.max(Date.now(), this.#end?.timeMs ?? 0)
  }

  /**
   * Makes the records of a commit durable, if changes are kept. Call it within its transaction.
   *
   * @param records called with the time of the commit
   */
  append(records: (timeMs: number) => Iterable<readonly Uint8Array[]>): void {
    if (this.#end !== undefined) this.#appendTo(this.#end, records)
    // It ended just now, at the start, or during a commit that failed.
    if (this.#end === undefined && this.#table.getBinary(placeKey) !== undefined)
      this.#table.removeSync(placeKey)
  }

  #appendTo(end: JournalEnd, records: (timeMs: number) => Iterable<readonly Uint8Array[]>): void {
    const timeMs = this.#timeMs
    let { at, sum } = end
    try {
      if (this.#file !== undefined && at - this.#file.start >= this.#bytesMax / filesMax) this.close()
      for (const parts of records(timeMs)) {
        for (const bytes of joined(parts)) {
          this.#write(bytes, at)
          at += bytes.length
          sum = crc32(bytes, sum)
        }
      }
      if (this.#file !== undefined && at > end.at) fdatasyncSync(this.#file.descriptor)
      this.#next = { id: end.id, at, sum, timeMs, transaction: this.#transactionNumber() + 1 }
      this.#table.putSync(placeKey, encodePlace(this.#next))
    } catch (error) {
      this.end((error as Error).message)
    }
  }

  #write(bytes: Uint8Array, at: number): void {
    if (at + bytes.length - this.#start > this.#bytesMax)
      throw new Error('no backup has taken them: they are too many')
    this.#file ??= this.#create(at)
    for (let written = 0; written < bytes.length; ) {
      const position = at - this.#file.start + written
      written += writeSync(this.#file.descriptor, bytes, written, bytes.length - written, position)
    }
  }

  #create(start: number): { readonly descriptor: number; readonly start: number } {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    const { bavail, bsize } = statfsSync(this.#directory)
    if (bavail * bsize < start - this.#start)
      throw new Error('no backup has taken them: the disk is nearly full')
    const file = { descriptor: openSync(this.#pathOf(start, this.#end!.id), 'w', 0o600), start }
    syncDirectory(this.#directory)
    syncDirectory(dirname(this.#directory))
    return file
  }

  /** Call when the transaction is durable. */
  accept(): void {
    this.#end = this.#next ?? this.#end
    this.#next = undefined
  }

  /** Call when the transaction has failed: the next records are written over its own. */
  abandon(): void {
    this.#next = undefined
  }

  /**
   * Tells where changes are, and separates them from all later ones by time. Begins a journal if there is none, if the
   * data are older than the caller's, or if the clock was far ahead: its times would all be the same until then.
   *
   * @param transaction makes the place durable
   */
  take({ since, stored }: ChangesChoice, transaction: (work: () => void) => void): JournalRange {
    const aheadMs = (this.#end?.timeMs ?? 0) - Date.now()
    if (aheadMs > clockAheadMaxMs) this.end(`the clock was ${Math.round(aheadMs / 1000)} seconds ahead`)
    const { id, at = 0 } = this.#end ?? {}
    const isAhead = [since, stored].some((place) => place !== undefined && place.id === id && place.at > at)
    if (id === undefined || isAhead) this.#begin(transaction)
    const end = this.#end!
    const timeMs = this.#timeMs
    this.#end = { ...end, timeMs: timeMs + 1 }
    if (stored?.id === end.id) this.#forget(stored.at)
    const isKept = since?.id === end.id && since.at >= this.#start
    const from = isKept ? since.at : end.at
    return { id: end.id, start: this.#start, from, to: end.at, sum: end.sum, timeMs }
  }

  #begin(transaction: (work: () => void) => void): void {
    const begun = { id: newId(), at: 0, sum: 0, timeMs: this.#timeMs }
    let end!: JournalEnd
    transaction(() => {
      end = { ...begun, transaction: this.#transactionNumber() + 1 }
      this.#table.putSync(placeKey, encodePlace(end))
    })
    this.close()
    this.#removeFiles()
    this.#end = end
    this.#start = 0
  }

  /** Removes the files that have nothing after a place. */
  #forget(at: number): void {
    const { id, at: endAt } = this.#end!
    try {
      const files = filesIn(readdirIn(this.#directory), id)
      for (const [index, start] of files.entries()) {
        const next = files[index + 1] ?? endAt
        if (next > at) break
        rmSync(this.#pathOf(start, id), { force: true })
        if (this.#file?.start === start) this.close()
        this.#start = next
      }
    } catch {
      // The next call removes them, or the journal is full.
      return
    }
    // The next call can remove it.
    if (this.#file !== undefined && this.#file.start < at) this.close()
  }

  /** Ends the journal: nothing is kept until `take` begins another. */
  end(reason: string): void {
    if (this.#end === undefined) return
    this.#end = undefined
    this.#next = undefined
    this.close()
    this.#removeFiles()
    this.#onEnd(reason)
  }

  close(): void {
    const file = this.#file
    this.#file = undefined
    try {
      if (file !== undefined) closeSync(file.descriptor)
    } catch {
      // What counts is synced.
    }
  }

  /**
   * Removes the directory, or all files but those of a journal. Those of earlier ones can still be there: removing them
   * failed, or was undone by a power cut.
   */
  #removeFiles(exceptId?: string): void {
    try {
      const others = readdirIn(this.#directory).filter((name) => fileName.exec(name)?.[1] !== exceptId)
      const gone =
        exceptId === undefined ? [this.#directory] : others.map((name) => join(this.#directory, name))
      for (const path of gone) rmSync(path, { recursive: true, force: true })
    } catch {
      // They take space until the next start.
    }
  }

  #pathOf(start: number, id: string): string {
    return join(this.#directory, nameOf(start, id))
  }
}

/** Returns what ends the journal, within a transaction that changes data without it. */
export function journalEnder(root: RootDatabase): () => void {
  const table = new Table(openShared(root, 'catalog'), journalNumber)
  return () => table.removeSync(placeKey)
}

/** The number of a collection that the table `catalog` itself does not use. */
export const journalNumber = 1

interface JournalEnd extends JournalPlace {
  /** The CRC of all bytes up to the place. */
  readonly sum: number
  /** No later record has an earlier time. */
  readonly timeMs: number
  /** The number of the transaction that has stored it. */
  readonly transaction: number
}

/** Joins the parts of a small record: one write costs less than several. */
function joined(parts: readonly Uint8Array[]): readonly Uint8Array[] {
  const bytes = parts.reduce((sum, { length }) => sum + length, 0)
  return bytes <= joinedBytesMax ? [Buffer.concat(parts)] : parts.filter(({ length }) => length > 0)
}

/**
 * Yields a part of the journal, after a record with its places. Any thread can read it.
 *
 * @throws DatabaseError `not_found` if another caller has had it forgotten
 */
export async function* journalBytes(dataDir: string, range: JournalRange): AsyncGenerator<Buffer> {
  yield encodeRange(range)
  const directory = changesPath(dataDir)
  let { from } = range
  if (from === range.to) return
  const files = filesIn(await readdir(directory).catch(() => []), range.id)
  while (from < range.to) {
    const index = files.findLastIndex((start) => start <= from)
    if (index < 0) throw gone(directory)
    const end = Math.min(files[index + 1] ?? range.to, range.to)
    await using file = await openIn(directory, nameOf(files[index]!, range.id))
    for (let bytes = end - from; bytes > 0; ) {
      const chunk = Buffer.allocUnsafe(Math.min(bytes, chunkBytes))
      const { bytesRead } = await file.read(chunk, 0, chunk.length, from - files[index]!)
      if (bytesRead === 0) throw gone(directory)
      yield chunk.subarray(0, bytesRead)
      from += bytesRead
      bytes -= bytesRead
    }
  }
}

async function openIn(directory: string, name: string): Promise<FileHandle> {
  return await open(join(directory, name), 'r').catch(() => {
    throw gone(directory)
  })
}

function gone(directory: string): DatabaseError {
  return new DatabaseError('not_found', `changes in ${directory} were removed while they were read`)
}

function readdirIn(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory) : []
}

/** The places at which the files of a journal begin, in order. */
function filesIn(names: readonly string[], id: string): number[] {
  return names
    .flatMap((name) => {
      const [, owner, start] = fileName.exec(name) ?? []
      return owner === id ? [Number(start)] : []
    })
    .sort((a, b) => a - b)
}

function nameOf(start: number, id: string): string {
  return `${id}-${String(start).padStart(16, '0')}.changes`
}

/** The value in the table `catalog`. */
function encodePlace({ id, at, sum, timeMs, transaction }: JournalEnd): Buffer {
  const value = Buffer.alloc(placeBytes)
  writeIdBytes(id, value, 0)
  for (const [index, number] of [at, sum, timeMs, transaction].entries()) {
    value.writeDoubleLE(number, idBytes + 8 * index)
  }
  value.writeUInt32LE(crc32(value.subarray(0, placeBytes - 4)), placeBytes - 4)
  return value
}

function decodePlace(value: Buffer): JournalEnd | undefined {
  if (value.length !== placeBytes) return undefined
  if (value.readUInt32LE(placeBytes - 4) !== crc32(value.subarray(0, placeBytes - 4))) return undefined
  const [at, sum, timeMs, transaction] = [0, 8, 16, 24].map((each) => value.readDoubleLE(idBytes + each)) as [
    number,
    number,
    number,
    number,
  ]
  return { id: idFromBytes(value), at, sum, timeMs, transaction }
}

const fileName = /^(.{36})-(\d{16})\.changes$/
const placeKey = 0
const placeBytes: number = idBytes + 36
/** Files are removed as a whole. A journal has so many, and a few more after backups. */
const filesMax = 64
const joinedBytesMax = 64 * 1024
const chunkBytes = 1024 * 1024
/** A smaller correction of the clock costs no moments. */
const clockAheadMaxMs = 60_000
