import { type FileHandle, mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { invalid } from '../../base/errors.ts'
import { syncDirectoryAsync } from '../../base/files.ts'

interface StoredLine {
  readonly text: string
  /** The file and the byte where it begins: it means the same line until its file is deleted. */
  readonly cursor: string
}

interface OpenFile {
  readonly file: FileHandle
  readonly number: number
  bytes: number
}

interface LineLogOptions {
  readonly directory: string
  /** A full file is followed by the next one. */
  readonly fileBytesMax: number
  /** The oldest files beyond this number are deleted. */
  readonly filesMax: number
}

/**
 * Lines of text in numbered files, to which bytes are only added: `00000001.jsonl` and so on. Files keep their names, so
 * that programs can follow them, and places in them stay valid.
 */
export class LineLog {
  readonly #options: LineLogOptions
  /** Open after the first line; closed again after an error, so that the next attempt begins anew. */
  #current: OpenFile | undefined

  constructor(options: LineLogOptions) {
    this.#options = options
  }

  /**
   * Appends whole lines; resolves when they are durable. Call it again only after that.
   *
   * @throws Error of the file system; then none of the lines is stored
   */
  async append(lines: string): Promise<void> {
    const bytes = Buffer.from(lines)
    const newest = this.#current ?? (await this.#open())
    this.#current = newest
    const isFull = newest.bytes >= this.#options.fileBytesMax
    const current = isFull ? await this.#begin(newest.number + 1) : newest
    try {
      await current.file.appendFile(bytes)
      await current.file.datasync()
      current.bytes += bytes.length
    } catch (error) {
      // A part may be there. If it cannot be removed, its last line is ended when the file is opened again.
      await current.file.truncate(current.bytes).catch(() => {})
      await this.close()
      throw error
    }
  }

  /** Opens the newest file. A line that a crash has cut off is ended, so that the next one is whole. */
  async #open(): Promise<OpenFile> {
    await mkdir(this.#options.directory, { recursive: true, mode: 0o700 })
    const number = (await this.#numbers()).at(-1) ?? 1
    const current = await this.#openFile(number)
    const { file, bytes } = current
    const last = Buffer.alloc(1)
    try {
      if (bytes > 0) await file.read(last, 0, 1, bytes - 1)
      if (bytes === 0 || last[0] === newline) return current
      await file.appendFile('\n')
      return { ...current, bytes: bytes + 1 }
    } catch (error) {
      await file.close()
      throw error
    }
  }

  async #openFile(number: number): Promise<OpenFile> {
    const { directory } = this.#options
    const file = await open(join(directory, nameOf(number)), 'a+', 0o600)
    await syncDirectoryAsync(directory)
    return { file, number, bytes: (await file.stat()).size }
  }

  /** Continues in another file, and deletes the oldest ones. */
  async #begin(number: number): Promise<OpenFile> {
    const next = await this.#openFile(number)
    await this.close()
    this.#current = next
    for (const old of (await this.#numbers()).slice(0, -this.#options.filesMax)) {
      await rm(join(this.#options.directory, nameOf(old)), { force: true })
    }
    return next
  }

  /** The numbers of the files that there are, the oldest first. */
  async #numbers(): Promise<number[]> {
    const names = await readdir(this.#options.directory).catch(orNothing)
    return names
      .flatMap((name) => (fileName.test(name) ? [Number.parseInt(name, 10)] : []))
      .sort((a, b) => a - b)
  }

  /**
   * Yields the lines that are stored, the newest first, a block of a file at a time.
   *
   * @param cursor only lines before this one; absent: all
   * @throws DatabaseError `invalid_argument` for a text that is no cursor
   */
  async *backwards(cursor?: string): AsyncGenerator<readonly StoredLine[], void, void> {
    const [file, byte] = cursor === undefined ? [] : placeIn(cursor)
    for (const number of (await this.#numbers()).reverse()) {
      if (file !== undefined && number > file) continue
      yield* this.#backwardsIn(number, number === file ? byte! : Number.POSITIVE_INFINITY)
    }
  }

  async *#backwardsIn(number: number, before: number): AsyncGenerator<readonly StoredLine[], void, void> {
    const file = await open(join(this.#options.directory, nameOf(number)), 'r').catch(orNothing)
    // It was deleted meanwhile.
    if (!('read' in file)) return
    try {
      let end = Math.min(before, (await file.stat()).size)
      /** The beginning of the block before, whose first line begins in an earlier block. */
      let rest = Buffer.alloc(0)
      while (end > 0) {
        const start = Math.max(0, end - blockBytes)
        const block = Buffer.alloc(end - start)
        const { bytesRead } = await file.read(block, 0, block.length, start)
        const bytes = Buffer.concat([block.subarray(0, bytesRead), rest])
        const firstEnd = start === 0 ? -1 : bytes.indexOf(newline)
        // Of a line that is longer than a block, more blocks are read.
        const first = start > 0 && firstEnd === -1 ? bytes.length : firstEnd + 1
        rest = bytes.subarray(0, first)
        yield linesIn(bytes, first).map(({ text, at }) => ({
          text,
          cursor: `${number}-${start + at}`,
        }))
        end = start
      }
    } finally {
      await file.close()
    }
  }

  /** Closes the file. Another line opens it again. */
  async close(): Promise<void> {
    const current = this.#current
    this.#current = undefined
    await current?.file.close()
  }
}

const newline = '\n'.charCodeAt(0)
/** Its lines are read and tested in one turn of about half a millisecond. */
const blockBytes = 65_536
const fileName = /^\d{8,}\.jsonl$/

function nameOf(number: number): string {
  return `${String(number).padStart(8, '0')}.jsonl`
}

function placeIn(cursor: string): number[] {
  const found = /^(\d{1,12})-(\d{1,12})$/.exec(cursor)
  if (found !== null) return found.slice(1).map(Number)
  throw invalid(`cursor is ${JSON.stringify(cursor.slice(0, 100))}: it is the next_cursor of another page`)
}

function orNothing(error: NodeJS.ErrnoException): never[] {
  if (error.code === 'ENOENT') return []
  throw error
}

/** The lines of a block, the last one first. @param first where the first whole line begins */
function linesIn(bytes: Buffer, first: number): { readonly text: string; readonly at: number }[] {
  const lines: { readonly text: string; readonly at: number }[] = []
  for (let at = first; at < bytes.length; ) {
    const found = bytes.indexOf(newline, at)
    const end = found === -1 ? bytes.length : found
    lines.push({ text: bytes.toString('utf8', at, end), at })
    at = end + 1
  }
  return lines.reverse()
}
