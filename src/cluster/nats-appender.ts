import { JetStreamApiError, JetStreamError } from '@nats-io/jetstream'
import { DatabaseError } from '../base/errors.ts'
import { type AppendOptions, type LogBounds, UncertainAppend } from './commit-log.ts'
import type { NatsLogOptions, NatsStream } from './nats-entries.ts'
import { subjectOf } from './nats-stream.ts'
import { pause } from './pause.ts'

/**
 * Publishes records. Each is retried under the same id until the log has it, the log is full, or the time is up.
 * JetStream remembers ids for two minutes, much longer than an append is tried.
 */
export class NatsAppender {
  readonly #stream: NatsStream
  readonly #bounds: () => Promise<LogBounds>
  readonly #cluster: string
  readonly #reserveShare: number
  readonly #timeoutMs: number
  readonly #appendsMax: number
  readonly #waiting: (() => void)[] = []
  #running = 0
  #isClosed = false
  /** Size of the log when last asked, and the bytes appended here since. */
  #size: { readonly bounds: LogBounds; readonly askedMs: number; appendedBytes: number } | undefined

  constructor(stream: NatsStream, bounds: () => Promise<LogBounds>, options: NatsLogOptions) {
    this.#stream = stream
    this.#bounds = bounds
    this.#cluster = options.cluster
    this.#reserveShare = options.reserveShare ?? 0.05
    this.#timeoutMs = options.appendTimeoutMs ?? 15_000
    this.#appendsMax = options.appendsMax ?? 64
  }

  async append(record: Uint8Array, options: AppendOptions): Promise<number> {
    const endMs = performance.now() + this.#timeoutMs
    await this.#start()
    try {
      if (!options.intoReserve) await this.#requireRoom(record.length)
      const position = await this.#publish(record, options, endMs)
      if (this.#size !== undefined) this.#size.appendedBytes += record.length
      return position
    } finally {
      this.#running--
      this.#waiting.shift()?.()
    }
  }

  close(): void {
    this.#isClosed = true
  }

  async #start(): Promise<void> {
    this.#running++
    if (this.#running > this.#appendsMax) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  async #publish(record: Uint8Array, options: AppendOptions, endMs: number): Promise<number> {
    const { js, name, logger } = this.#stream
    const subject = subjectOf(this.#cluster, options.partition)
    let mayBeStored = false
    for (let attempt = 1; ; attempt++) {
      if (this.#isOver(options, endMs, attempt)) throw outcomeUnknown(mayBeStored)
      try {
        const expect = { streamName: name }
        const ack = await js.publish(subject, record, { msgID: options.id, timeout: attemptMs, expect })
        return ack.seq
      } catch (err) {
        if (isFull(err)) throw mayBeStored ? outcomeUnknown(true) : fullError(err)
        mayBeStored ||= !isRefusal(err)
        logger.debug({ err, id: options.id, attempt }, 'a record was not appended: trying again')
      }
      await pause(Math.min(retryMs * attempt, retryMsMax), options.signal)
    }
  }

  /** Whether to stop trying. The first attempt is always made, unless nobody waits for it any more. */
  #isOver({ signal }: AppendOptions, endMs: number, attempt: number): boolean {
    return this.#isClosed || signal?.aborted === true || (attempt > 1 && performance.now() >= endMs)
  }

  /** @throws DatabaseError `disk_full` when only the reserve is left, as far as this node knows */
  async #requireRoom(bytes: number): Promise<void> {
    const nowMs = performance.now()
    if (this.#size === undefined || nowMs - this.#size.askedMs > sizeMs) {
      // Without an answer the log itself decides.
      const bounds = await this.#bounds().catch(() => undefined)
      this.#size = bounds && { bounds, askedMs: nowMs, appendedBytes: 0 }
    }
    if (this.#size === undefined) return
    const { bounds, appendedBytes } = this.#size
    const room = bounds.bytesMax * (1 - this.#reserveShare)
    if (bounds.bytesMax > 0 && bounds.bytes + appendedBytes + bytes > room) throw fullError()
  }
}

function outcomeUnknown(mayBeStored: boolean): Error {
  if (mayBeStored) return new UncertainAppend('the log of the cluster did not say whether it has the record')
  return new DatabaseError('not_ready', 'the log of the cluster cannot be reached: nothing was stored')
}

function fullError(cause?: unknown): DatabaseError {
  return new DatabaseError('disk_full', 'the log of the cluster is full', { cause })
}

function isFull(error: unknown): boolean {
  return error instanceof JetStreamApiError && fullCodes.includes(error.code)
}

/** Whether a server said that it has not stored the record; a missing answer says nothing. */
function isRefusal(error: unknown): boolean {
  if (error instanceof JetStreamApiError) return error.code !== inProcess
  return error instanceof JetStreamError || (error as Error).name === 'JetStreamNotEnabled'
}

/** Codes of JetStream: no bytes left in the stream, on the server, for the account. */
const fullCodes: readonly number[] = [10077, 10023, 10047, 10002]
/** Another append with the same id is in progress. */
const inProcess = 10158
const attemptMs = 2_000
const retryMs = 50
const retryMsMax = 500
/** How long the size of the log is taken as current, together with what was appended here since. */
const sizeMs = 1_000
