import { setImmediate as nextTurn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { assert } from '../base/assert.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { type WritesBlocked, writesBlockedTexts } from '../base/writes-blocked.ts'
import { emptyMeta } from './key-layout.ts'
import type { WriteGroup } from './store.ts'
import {
  type FromWriter,
  partsOf,
  type StoredState,
  type ToWriter,
  type WriterSetup,
} from './writer-messages.ts'

export interface WriterOptions extends WriterSetup {
  readonly logger: Logger
  /** Told when changes are refused from now on, and why; without a reason, when they are taken again. */
  readonly onBlocked: (reason: WritesBlocked | undefined) => void
  /** Told when the thread has closed its files because of a failure: nothing will be written any more. */
  readonly onBroken: () => void
  /** Node's options for the thread: the seam where tests make its disk fail. */
  readonly execArgv?: readonly string[]
}

/**
 * The main thread's side of the writer thread.
 *
 * A full disk passes, once there is space. After anything else, above all a failed fsync, what the disk holds
 * is unknown: trying again would report success for data that the kernel has already dropped. So the first
 * such failure poisons the writer: its thread closes its files, and every later group is refused.
 */
export class Writer {
  readonly #options: WriterOptions
  readonly #worker: Worker
  readonly #opened: PromiseWithResolvers<void> = Promise.withResolvers()
  /** When the thread holds no files any more. */
  readonly #ended: PromiseWithResolvers<void> = Promise.withResolvers()
  #state: StoredState = { databaseId: '', meta: emptyMeta, rowFileBytes: 0 }
  /** Of the group that is on its way. */
  #outcome: PromiseWithResolvers<void> | undefined
  #poison: DatabaseError | undefined
  #isClosing = false
  #isFull = false
  /** When the log last said so. */
  #fullToldMs = Number.NEGATIVE_INFINITY
  #isEndOwed = false

  private constructor(options: WriterOptions) {
    this.#options = options
    const { dataDir, dimension, requestBounds, execArgv } = options
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    this.#worker = new Worker(new URL(`./writer-thread.${extension}`, import.meta.url), {
      workerData: { dataDir, dimension, requestBounds } satisfies WriterSetup,
      ...(execArgv === undefined ? {} : { execArgv: [...execArgv] }),
    })
    this.#worker.on('message', (message: FromWriter) => this.#hear(message))
    this.#worker.on('error', (error) => this.#fail('the storage writer failed', error))
    this.#worker.on('exit', (code) => {
      if (!this.#isClosing)
        this.#fail('the storage writer failed', new Error(`its thread ended with code ${code}`))
      this.#ended.resolve()
    })
    this.#ended.promise.then(() => {
      if (this.#poison !== undefined) options.onBroken()
    })
  }

  /** @throws Error that says what is damaged */
  static async start(options: WriterOptions): Promise<Writer> {
    const writer = new Writer(options)
    try {
      await writer.#opened.promise
    } catch (error) {
      await writer.#ended.promise
      throw error
    }
    return writer
  }

  /** Whether nothing will be written any more. */
  get isBroken(): boolean {
    return this.#poison !== undefined
  }

  /** What is on disk, as of the last commit. */
  get state(): StoredState {
    return this.#state
  }

  /** @throws DatabaseError when the disk can no longer be trusted, with anything that is read of it either */
  checkTrusted(): void {
    if (this.#poison !== undefined) throw this.#poison
  }

  /** See `Store.commit`. */
  async commit(group: WriteGroup): Promise<void> {
    this.checkTrusted()
    assert(this.#outcome === undefined, 'one group is committed at a time')
    const outcome = Promise.withResolvers<void>()
    this.#outcome = outcome
    // It can fail while later parts are still being packed; that is heard of below.
    outcome.promise.catch(() => {})
    try {
      for (const part of partsOf(group)) {
        this.#post(part, [part.rows.buffer])
        if (!part.isLast) await nextTurn()
      }
    } catch (error) {
      // Half a group that stays behind in the thread must not be joined by the next.
      this.#fail('the storage writer failed', error)
    }
    await outcome.promise
    if (group.insertions.length > 0) this.#noteSpace()
  }

  /** Lets the group on its way end, and the thread after it. */
  async close(): Promise<void> {
    // A commit that fails has told its caller; here only its end matters.
    await this.#outcome?.promise.catch(() => {})
    this.#isClosing = true
    if (this.#poison === undefined) this.#post({ kind: 'close' })
    await this.#ended.promise
  }

  #hear(message: FromWriter): void {
    if (message.kind === 'refused') {
      this.#isClosing = true
      this.#opened.reject(message.error)
    } else if (message.kind === 'failed') {
      if (message.isDiskFull) this.#noteFull(message.error)
      else this.#fail('the disk failed', message.error)
    } else if (message.kind === 'released') {
      this.#worker.unref()
      this.#ended.resolve()
    } else {
      const { databaseId, meta, rowFileBytes } = message
      this.#state = { databaseId, meta, rowFileBytes }
      this.#opened.resolve()
      this.#settle()
    }
  }

  #noteFull(cause: unknown): void {
    const error = diskFull(this.#options.dataDir, cause)
    if (!this.#isFull) {
      this.#isFull = true
      this.#options.onBlocked('disk_full')
      this.#tellFull(cause)
    }
    this.#settle(error)
  }

  /** Inserts of many sizes can turn a disk with little space full and not full with each of them. */
  #tellFull(err: unknown): void {
    if (performance.now() - this.#fullToldMs < fullToldAgainMs) return
    this.#fullToldMs = performance.now()
    this.#isEndOwed = true
    this.#options.logger.error({ err, dataDir: this.#options.dataDir }, writesBlockedTexts.disk_full)
  }

  /** Deletions go through on a full disk too: only an insertion tells that there is space. */
  #noteSpace(): void {
    if (!this.#isFull) return
    this.#isFull = false
    this.#options.onBlocked(undefined)
    if (this.#isEndOwed) this.#options.logger.info('the disk has space again: inserts are taken')
    this.#isEndOwed = false
  }

  #fail(what: string, cause: unknown): void {
    if (this.#poison === undefined) {
      this.#options.onBlocked('disk_failed')
      this.#poison = new DatabaseError(
        'internal',
        `${what}: writes are stopped until the server is restarted, reads go on`,
        { cause },
      )
      this.#options.logger.fatal({ err: cause }, this.#poison.message)
      this.#post({ kind: 'release' })
    }
    this.#opened.reject(cause)
    this.#settle(this.#poison)
  }

  #settle(error?: DatabaseError): void {
    const outcome = this.#outcome
    this.#outcome = undefined
    if (error === undefined) outcome?.resolve()
    else outcome?.reject(error)
  }

  #post(message: ToWriter, handedOver: readonly ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, handedOver)
  }
}

const fullToldAgainMs = 60_000

function diskFull(dataDir: string, cause: unknown): DatabaseError {
  return new DatabaseError(
    'disk_full',
    `the disk of the data directory ${dataDir} is full: free some space or delete points`,
    { cause },
  )
}
