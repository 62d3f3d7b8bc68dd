import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import {
  assert,
  DatabaseError,
  filesExhausted,
  type WritesBlocked,
  writesBlockedTexts,
} from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { Turn } from '../../base/turns.ts'
import type { WriteGroup } from '../store.ts'
import { partsOf } from './group-parts.ts'
import type {
  ChangedMessage,
  CollectionsChange,
  FailureScope,
  FromWriter,
  NotOpenedMessage,
  OpenedMessage,
  OpenMessage,
  StoredState,
  ToWriter,
  WriterSetup,
} from './writer-messages.ts'

interface WriterOptions extends WriterSetup {
  readonly logger: Logger
  /** Called with the reason when changes begin to be refused; called with undefined when they are accepted again. */
  readonly onBlocked: (reason: WritesBlocked | undefined) => void
  /**
   * Makes sure that everything can be read. Called when the thread has closed its files because of a failure: nothing
   * will be written after it. Called again if it fails.
   */
  readonly reopen: () => Promise<void>
  /** Node's options for the thread. Tests use them to make its disk fail. */
  readonly execArgv?: readonly string[] | undefined
}

/**
 * The main thread's side of the writer thread, which writes all collections.
 *
 * A full disk is temporary, and so is a file that cannot be opened because too many are open. After any other failure,
 * above all a failed fsync, the state of the disk is unknown: a retry would report success for data that the kernel has
 * already dropped. So the first such failure poisons the writer: its thread closes its files, and every later group is
 * refused.
 */
export class Writer {
  /** Of all writers, because a caller can try again to open a data directory. */
  static #openFailureLoggedMs = Number.NEGATIVE_INFINITY
  readonly #options: WriterOptions
  readonly #worker: Worker
  /** Open collections by number. */
  readonly #collections = new Map<number, CollectionWriter>()
  readonly #opening = new Map<number, PromiseWithResolvers<StoredState>>()
  readonly #shutting = new Map<number, PromiseWithResolvers<void>>()
  /** Pending changes, in the order in which they were sent. */
  readonly #changes: PromiseWithResolvers<ChangedMessage>[] = []
  /** Resolves when the thread has closed its files. */
  readonly #ended: PromiseWithResolvers<void> = Promise.withResolvers()
  #poison: DatabaseError | undefined
  #hasStarted = false
  #journalBytes: number | undefined
  /** Why the thread could not start. */
  #refusal: { readonly error: unknown } | undefined
  #isClosing = false
  #isFull = false
  /** When a full disk was last logged. */
  #fullLoggedMs = Number.NEGATIVE_INFINITY
  #isEndOwed = false

  constructor(options: WriterOptions) {
    this.#options = options
    const { dataDir, requestBounds, changesBytesMax, execArgv } = options
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    this.#worker = new Worker(new URL(`./writer-thread.${extension}`, import.meta.url), {
      workerData: { dataDir, requestBounds, changesBytesMax } satisfies WriterSetup,
      ...(execArgv === undefined ? {} : { execArgv: [...execArgv] }),
    })
    this.#worker.on('message', (message: FromWriter) => this.#hear(message))
    this.#worker.on('error', (error) => this.#end(error))
    this.#worker.on('exit', (code) => {
      if (!this.#isClosing) this.#end(new Error(`the thread of the storage writer ended with code ${code}`))
      this.#ended.resolve()
    })
    this.#ended.promise.then(() => {
      if (this.#poison !== undefined) void this.#reopen()
    })
  }

  /** The disk space of the journal of changes; undefined if none are kept. */
  get journalBytes(): number | undefined {
    return this.#journalBytes
  }

  /** Whether writing has failed for good. */
  get isBroken(): boolean {
    return this.#poison !== undefined
  }

  /** @throws DatabaseError if the disk can no longer be trusted; then what is read from it cannot be trusted either */
  checkTrusted(): void {
    if (this.#poison !== undefined) throw this.#poison
  }

  /**
   * Opens a collection for writing.
   *
   * @throws NotWritable if the collection can only be read
   * @throws Error if the collection is damaged, or cannot be opened now
   */
  async open(message: Omit<OpenMessage, 'kind'>): Promise<CollectionWriter> {
    this.checkTrusted()
    if (this.#refusal !== undefined) throw this.#refusal.error
    const { collection } = message
    const opened = Promise.withResolvers<StoredState>()
    this.#opening.set(collection, opened)
    this.post({ kind: 'open', ...message })
    const writer = new CollectionWriter(collection, await opened.promise, this)
    this.#collections.set(collection, writer)
    return writer
  }

  /** Closes a collection whose groups have ended. */
  async shut(collection: number): Promise<void> {
    this.#collections.delete(collection)
    if (this.#poison !== undefined || this.#isClosing) return
    const done = Promise.withResolvers<void>()
    this.#shutting.set(collection, done)
    this.post({ kind: 'shut', collection })
    await done.promise
  }

  /**
   * Makes a change of collections durable.
   *
   * @throws DatabaseError `disk_full` or `files_exhausted` if nothing was changed. After any other error, only a restart
   *   shows whether the change is durable
   */
  async change(change: CollectionsChange): Promise<ChangedMessage> {
    this.checkTrusted()
    if (this.#refusal !== undefined) throw this.#refusal.error
    const changed = Promise.withResolvers<ChangedMessage>()
    this.#changes.push(changed)
    this.post({ kind: 'change', change })
    return await changed.promise
  }

  /** Waits for the groups in progress, then ends the thread. */
  async close(): Promise<void> {
    await Promise.all([...this.#collections.values()].map((collection) => collection.idle()))
    // A failed change is reported to its caller; here only its end matters.
    await Promise.allSettled(this.#changes.map(({ promise }) => promise))
    const wasClosing = this.#isClosing
    this.#isClosing = true
    if (this.#poison === undefined && !wasClosing) this.post({ kind: 'close' })
    await this.#ended.promise
  }

  post(message: ToWriter, handedOver: readonly ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, handedOver)
  }

  /**
   * Call after a commit that stored points. Deletions also succeed on a full disk, so they do not show that there is
   * space.
   */
  noteSpace(): void {
    if (!this.#isFull) return
    this.#isFull = false
    this.#options.onBlocked(undefined)
    if (this.#isEndOwed) this.#options.logger.info('the disk has space again: inserts are accepted')
    this.#isEndOwed = false
  }

  /** Handles the death of the thread. */
  #end(error: Error): void {
    if (this.#hasStarted) this.fail('the storage writer failed', error)
    // It could not load its program, or not even begin. Node reports that in many ways.
    else this.#refuse(this.#noteOpenFailure(error))
  }

  /** Poisons the writer: nothing is written after this. */
  fail(what: string, cause: unknown): void {
    if (this.#poison === undefined) {
      this.#options.onBlocked('disk_failed')
      this.#poison = stopped(what, cause)
      this.#options.logger.fatal({ err: cause }, this.#poison.message)
      this.post({ kind: 'release' })
    }
    for (const opened of this.#opening.values()) opened.reject(cause)
    this.#opening.clear()
    for (const changed of this.#changes.splice(0)) changed.reject(this.#poison)
    for (const done of this.#shutting.values()) done.resolve()
    this.#shutting.clear()
    for (const collection of this.#collections.values()) collection.settle(this.#poison)
  }

  #hear(message: FromWriter): void {
    if ('journalBytes' in message) this.#journalBytes = message.journalBytes
    if (message.kind === 'refused') this.#refuse(this.#openErrorOf(message))
    else if (message.kind === 'started') this.#hasStarted = true
    else if (message.kind === 'committed') {
      this.#collections.get(message.collection)?.committed(stateOf(message))
    } else if (message.kind === 'failed') this.#hearFailure(message)
    else if (message.kind === 'changed') this.#changes.shift()?.resolve(message)
    else if (message.kind === 'not changed') this.#changes.shift()?.reject(this.#errorOf(message))
    else if (message.kind === 'journal ended') {
      this.#journalBytes = undefined
      const what = 'changes are no longer kept: moments until the next backup cannot be restored'
      this.#options.logger.warn({ reason: message.reason }, what)
    } else if (message.kind === 'released') {
      this.#worker.unref()
      this.#ended.resolve()
    } else if (message.kind === 'shut done') {
      this.#shutting.get(message.collection)?.resolve()
      this.#shutting.delete(message.collection)
    } else this.#hearOpened(message)
  }

  #hearOpened(message: OpenedMessage | NotOpenedMessage): void {
    const opened = this.#opening.get(message.collection)
    this.#opening.delete(message.collection)
    if (message.kind === 'opened') opened?.resolve(stateOf(message))
    else opened?.reject(this.#openErrorOf(message))
  }

  #hearFailure(message: FromWriter & { readonly kind: 'failed' }): void {
    const collection = this.#collections.get(message.collection)
    if (message.scope === 'collection') collection?.poison(stopped('a record is damaged', message.error))
    else collection?.settle(this.#errorOf(message))
  }

  /** The error for the caller who wants to open a collection. */
  #openErrorOf({ hindrance, error }: Pick<NotOpenedMessage, 'hindrance' | 'error'>): unknown {
    if (hindrance === 'files exhausted') return this.#noteOpenFailure(error)
    if (hindrance === 'read-only') return stopped('the file system is read-only', error)
    return error
  }

  /** The error for the caller of a change. */
  #errorOf({ scope, error }: { readonly scope: FailureScope; readonly error: unknown }): DatabaseError {
    if (scope === 'disk full') return this.#noteFull(error)
    if (scope === 'open failed') return this.#noteOpenFailure(error)
    this.fail('the disk failed', error)
    return this.#poison!
  }

  async #reopen(): Promise<void> {
    const { reopen, logger } = this.#options
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await reopen()
      } catch (err) {
        if (attempt === 1) logger.error({ err }, 'payloads cannot be read: trying again every second')
      }
      await sleep(reopenMs, undefined, { ref: false })
    }
  }

  /** Handles a thread that could not start. It ends on its own. */
  #refuse(error: unknown): void {
    if (this.#refusal !== undefined) return
    this.#isClosing = true
    this.#refusal = { error }
    for (const opened of this.#opening.values()) opened.reject(error)
    this.#opening.clear()
    for (const changed of this.#changes.splice(0)) changed.reject(error)
  }

  #noteFull(cause: unknown): DatabaseError {
    if (!this.#isFull) {
      this.#isFull = true
      this.#options.onBlocked('disk_full')
      this.#logFull(cause)
    }
    return diskFull(this.#options.dataDir, cause)
  }

  #noteOpenFailure(cause: unknown): DatabaseError {
    const error = filesExhausted(cause)
    if (performance.now() - Writer.#openFailureLoggedMs >= logIntervalMs) {
      Writer.#openFailureLoggedMs = performance.now()
      this.#options.logger.error({ err: cause }, error.message)
    }
    return error
  }

  /** Limits the log lines: on a nearly full disk, inserts of different sizes fail and succeed in turn. */
  #logFull(err: unknown): void {
    if (performance.now() - this.#fullLoggedMs < logIntervalMs) return
    this.#fullLoggedMs = performance.now()
    this.#isEndOwed = true
    this.#options.logger.error({ err, dataDir: this.#options.dataDir }, writesBlockedTexts.disk_full)
  }
}

const logIntervalMs = 60_000
/** The delay before the files are opened again for reading, after that has failed. */
const reopenMs = 1_000

function stateOf({ databaseId, meta, rowFileBytes }: StoredState): StoredState {
  return { databaseId, meta, rowFileBytes }
}

/** The error of a write where writes have stopped and reads continue. */
export class NotWritable extends DatabaseError {}

function stopped(what: string, cause: unknown): DatabaseError {
  return new NotWritable(
    'internal',
    `${what}: writes are stopped until the server is restarted; reads continue`,
    { cause },
  )
}

function diskFull(dataDir: string, cause: unknown): DatabaseError {
  return new DatabaseError(
    'disk_full',
    `the disk of the data directory ${dataDir} is full: free some space or delete points`,
    { cause },
  )
}

/** The main thread's side of writing one collection. */
export class CollectionWriter {
  readonly #number: number
  readonly #all: Writer
  #state: StoredState
  /** The outcome of the group in progress. */
  #outcome: PromiseWithResolvers<void> | undefined
  #poison: DatabaseError | undefined

  constructor(number: number, state: StoredState, all: Writer) {
    this.#number = number
    this.#state = state
    this.#all = all
  }

  /** Whether writing has failed for good. */
  get isBroken(): boolean {
    return this.#poison !== undefined || this.#all.isBroken
  }

  /** The state on disk, as of the last commit. */
  get state(): StoredState {
    return this.#state
  }

  /** @throws DatabaseError if the disk can no longer be trusted; then what is read from it cannot be trusted either */
  checkTrusted(): void {
    this.#all.checkTrusted()
    if (this.#poison !== undefined) throw this.#poison
  }

  /** See `Store.commit`. */
  async commit(group: WriteGroup): Promise<void> {
    this.checkTrusted()
    assert(this.#outcome === undefined, 'one group is committed at a time')
    const parts = partsOf(this.#number, group)
    const outcome = Promise.withResolvers<void>()
    this.#outcome = outcome
    // The group can fail while later parts are still being packed; the await below reports that.
    outcome.promise.catch(() => {})
    const turn = new Turn()
    try {
      for (const part of parts) {
        this.#all.post(part, [part.packed.buffer])
        if (!part.isLast && turn.isOver) await turn.next()
      }
    } catch (error) {
      // The thread has half a group: the next group must not be added to it.
      this.#all.fail('the storage writer failed', error)
    }
    await outcome.promise
    if (group.changes.some(({ kind }) => kind !== 'delete')) this.#all.noteSpace()
  }

  /** Resolves when no group is in progress. */
  async idle(): Promise<void> {
    // A failed commit is reported to its caller; here only its end matters.
    await this.#outcome?.promise.catch(() => {})
  }

  /** Waits for the group in progress, and closes the collection's file. */
  async close(): Promise<void> {
    await this.idle()
    await this.#all.shut(this.#number)
  }

  /** Call when the group is durable. */
  committed(state: StoredState): void {
    const { meta, databaseId } = this.#state
    assert(state.databaseId === databaseId, 'a collection keeps its history')
    assert(state.meta.sequence >= meta.sequence, 'sequence numbers only grow')
    this.#state = state
    this.settle()
  }

  /** Ends the group in progress. */
  settle(error?: DatabaseError): void {
    const outcome = this.#outcome
    this.#outcome = undefined
    if (error === undefined) outcome?.resolve()
    else outcome?.reject(error)
  }

  /** Call after a failure that leaves the state of this collection unknown, but not of others. */
  poison(error: DatabaseError): void {
    this.#poison ??= error
    this.settle(this.#poison)
  }
}
