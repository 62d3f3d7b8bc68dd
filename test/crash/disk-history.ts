import { dirname } from 'node:path'
import { type Call, pathOfDescriptor, type Recording, stringsOf } from './disk-record.ts'

/** A change that starts at `begin`, returns to the program at `end`, and is safely on the disk at `durable`. */
interface Change {
  readonly begin: number
  readonly end: number
  /** Infinity if the change was never synced. */
  durable: number
}

/** A write of `bytes` at `offset`; without bytes, a change of the file's length to `offset`. */
export interface FileChange extends Change {
  readonly offset: number
  readonly bytes: Buffer | undefined
}

/** The changes of one file, independent of its name. */
export interface FileHistory {
  readonly changes: FileChange[]
}

/** A change of names in a directory: each refers to a file, a directory or nothing from then on. */
export interface NameChange extends Change {
  /** All of them change atomically. */
  readonly names: readonly { readonly path: string; readonly file: FileHistory | 'directory' | undefined }[]
}

/** The changes of a data directory's files during a recording, and when each became durable. */
export interface DiskHistory {
  /** Ordered by `end`. */
  readonly names: readonly NameChange[]
}

/**
 * @param ignoresSync whether the disk ignores syncs
 * @throws Error for a call that this disk model does not support
 */
export function historyOf({ calls, dataDir }: Recording, ignoresSync = false): DiskHistory {
  const reader = new Reader(dataDir, ignoresSync)
  for (const call of [...calls].sort((a, b) => takesEffect(a) - takesEffect(b))) reader.read(call)
  return { names: reader.names }
}

/**
 * Another thread can get the number of a closed descriptor before the call that closed it returns. All other calls take
 * effect at the latest when they return.
 */
function takesEffect({ name, begin, end }: Call): number {
  return name === 'close' ? begin : end
}

/** A file descriptor opened for writing. */
interface OpenFile {
  readonly path: string
  readonly file: FileHistory
  readonly appends: boolean
  /** Whether each write is durable when it returns. */
  readonly isSync: boolean
  position: number
}

class Reader {
  readonly names: NameChange[] = []
  readonly #dataDir: string
  readonly #ignoresSync: boolean
  readonly #open = new Map<number, OpenFile>()
  readonly #files = new Map<string, FileHistory>()
  readonly #directoryChanges = new Map<string, NameChange[]>()

  constructor(dataDir: string, ignoresSync: boolean) {
    this.#dataDir = dataDir
    this.#ignoresSync = ignoresSync
  }

  read(call: Call): void {
    const touched = [pathOfDescriptor(call.args), ...pathsOf(call)]
    const opened = this.#open.get(Number.parseInt(call.args, 10))
    if (!touched.some((path) => path.startsWith(this.#dataDir)) && opened === undefined) return
    // LMDB resets the lock file at the first open; nothing in it outlives the process.
    if (touched.some((path) => /\.mdb(\.new)?-lock$/.test(path))) return
    const handler = this.#handlers[call.name]
    if (handler === undefined)
      throw new Error(`${call.name} changes the data directory in an unsupported way`)
    handler(call, opened)
  }

  readonly #handlers: Readonly<Record<string, (call: Call, opened: OpenFile | undefined) => void>> = {
    openat: (call) => this.#openAt(call),
    close: ({ args }) => this.#open.delete(Number.parseInt(args, 10)),
    lseek: ({ result }, opened) => {
      if (opened !== undefined) opened.position = result
    },
    write: (call, opened) => this.#write(call, opened!, undefined),
    writev: (call, opened) => this.#write(call, opened!, undefined),
    pwrite64: (call, opened) => this.#write(call, opened!, Number(/(\d+)$/.exec(call.args)![1])),
    ftruncate: (call, opened) => {
      this.#change(call, opened!, Number(/(\d+)$/.exec(call.args)![1]), undefined)
    },
    fsync: (call) => this.#sync(call),
    fdatasync: (call) => this.#sync(call),
    mkdir: (call) => this.#name(call, [{ path: pathsOf(call)[0]!, file: 'directory' }]),
    unlink: (call) => {
      const path = pathsOf(call)[0]!
      this.#files.delete(path)
      this.#name(call, [{ path, file: undefined }])
    },
    rename: (call) => {
      const [from, to] = pathsOf(call) as [string, string]
      const file = this.#files.get(from)!
      this.#files.delete(from)
      this.#files.set(to, file)
      this.#name(call, [
        { path: from, file: undefined },
        { path: to, file },
      ])
    },
    mmap: ({ args }) => {
      if (/PROT_WRITE/.test(args) && /MAP_SHARED/.test(args)) {
        throw new Error(
          `${pathOfDescriptor(args.slice(args.search(/\d+</)))} is written through a memory map`,
        )
      }
    },
  }

  #openAt(call: Call): void {
    const path = pathsOf(call)[0]!
    const flags = call.args
    if (/O_DIRECTORY/.test(flags) || path === this.#dataDir || !/O_WRONLY|O_RDWR/.test(flags)) return
    let file = this.#files.get(path)
    if (file === undefined) {
      file = { changes: [] }
      this.#files.set(path, file)
      this.#name(call, [{ path, file }])
    } else if (/O_TRUNC/.test(flags)) {
      file.changes.push({ begin: call.begin, end: call.end, durable: never, offset: 0, bytes: undefined })
    }
    const isSync = /O_D?SYNC/.test(flags)
    this.#open.set(call.result, { path, file, appends: /O_APPEND/.test(flags), isSync, position: 0 })
  }

  #write(call: Call, opened: OpenFile, offset: number | undefined): void {
    const bytes = Buffer.concat(stringsOf(call.args)).subarray(0, call.result)
    if (bytes.length !== call.result) throw new Error(`${call.name}: ${bytes.length} bytes of ${call.result}`)
    const at = offset ?? (opened.appends ? sizeOf(opened.file.changes) : opened.position)
    if (offset === undefined) opened.position = at + bytes.length
    this.#change(call, opened, at, bytes)
  }

  #change({ begin, end }: Call, { file, isSync }: OpenFile, offset: number, bytes: Buffer | undefined): void {
    file.changes.push({ begin, end, durable: isSync ? end : never, offset, bytes })
  }

  /** Changes that ended before the sync began are durable when it ends. */
  #sync({ args, begin, end }: Call): void {
    if (this.#ignoresSync) return
    const opened = this.#open.get(Number.parseInt(args, 10))
    const changes = opened?.file.changes ?? this.#directoryChanges.get(pathOfDescriptor(args)) ?? []
    for (const change of changes) if (change.end <= begin) change.durable = Math.min(change.durable, end)
  }

  #name({ begin, end }: Call, names: NameChange['names']): void {
    const change = { begin, end, durable: never, names }
    this.names.push(change)
    const directory = dirname(names[0]!.path)
    const changes = this.#directoryChanges.get(directory) ?? []
    this.#directoryChanges.set(directory, changes)
    changes.push(change)
  }
}

const never = Number.POSITIVE_INFINITY

/** The paths among a call's arguments. For writes, strings are data. */
function pathsOf({ name, args }: Call): string[] {
  return /write/.test(name) ? [] : stringsOf(args).map((each) => each.toString())
}

function sizeOf(changes: readonly FileChange[]): number {
  return changes.reduce(
    (size, { offset, bytes }) => (bytes === undefined ? offset : Math.max(size, offset + bytes.length)),
    0,
  )
}
