import type { StreamInfo } from '@nats-io/jetstream'
import { DatabaseError } from '../base/errors.ts'
import { type AppendOptions, type CommitLog, type LogBounds, type LogEntry, LogLost } from './commit-log.ts'
import { NatsAppender } from './nats-appender.ts'
import { boundsOf, entryOfStored, type NatsLogOptions, type NatsStream } from './nats-entries.ts'
import { NatsReader } from './nats-reader.ts'
import { askForStream, findMadeStream, logIdOf } from './nats-stream.ts'

/** A log that is a JetStream stream: the position of a record is its sequence in the stream. */
export class NatsLog implements CommitLog {
  readonly id: string
  readonly #stream: NatsStream
  readonly #appender: NatsAppender
  readonly #closed = new AbortController()
  /** Whether the stream was missing when last asked for: then one answer is enough to confirm that. */
  #isGone = false

  constructor(stream: NatsStream, options: NatsLogOptions) {
    this.id = stream.id
    this.#stream = stream
    this.#appender = new NatsAppender(stream, () => this.bounds(), options)
  }

  append(record: Uint8Array, options: AppendOptions): Promise<number> {
    return this.#appender.append(record, options)
  }

  read(from: number, signal: AbortSignal): AsyncIterable<LogEntry> {
    return new NatsReader(this.#stream, this).read(from, AbortSignal.any([signal, this.#closed.signal]))
  }

  async get(position: number): Promise<LogEntry | undefined> {
    const message = await this.#stream.jsm.streams.getMessage(this.#stream.name, { seq: position })
    return message === null ? undefined : entryOfStored(message)
  }

  async bounds(): Promise<LogBounds> {
    return boundsOf(await this.#info())
  }

  async trim(below: number): Promise<void> {
    await this.#stream.jsm.streams.purge(this.#stream.name, { seq: below })
  }

  async close(): Promise<void> {
    this.#closed.abort()
    this.#appender.close()
  }

  /** @throws LogLost when the stream is no longer that of this log; DatabaseError `not_ready` without an answer */
  async #info(): Promise<StreamInfo> {
    const { jsm, name, id } = this.#stream
    const find = this.#isGone ? askForStream : findMadeStream
    const info = await find(jsm, name).catch((cause: unknown) => {
      throw new DatabaseError('not_ready', 'the log servers of the cluster do not answer', { cause })
    })
    this.#isGone = info === undefined
    if (info === undefined) throw new LogLost(`the stream ${name} was deleted`)
    if (logIdOf(info.config) !== id) throw new LogLost(`the stream ${name} was deleted and recreated`)
    return info
  }
}
