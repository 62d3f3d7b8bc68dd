import type { JsMsg } from '@nats-io/jetstream'
import { type CommitLog, type LogEntry, LogGap, LogLost } from './commit-log.ts'
import { createConsumer, entryOfMessage, type NatsStream } from './nats-entries.ts'
import { pause } from './pause.ts'

/**
 * Reads a stream in order. A JetStream consumer lives on one server and dies with it. It delivers what that server
 * has, which can lack a record: a flipped bit on its disk is enough. So positions are checked. A consumer that is
 * silent although the log has grown is replaced. A record that consumers do not deliver is requested from the leader
 * of the stream. The leader can be the server that lacks it, so the record counts as gone only after many consumers:
 * each lives on a random server.
 */
export class NatsReader {
  readonly #stream: NatsStream
  readonly #log: Pick<CommitLog, 'bounds' | 'get'>

  constructor(stream: NatsStream, log: Pick<CommitLog, 'bounds' | 'get'>) {
    this.#stream = stream
    this.#log = log
  }

  /** @throws LogGap, LogLost */
  async *read(from: number, signal: AbortSignal): AsyncGenerator<LogEntry> {
    let next = from
    let seen: LogEntry | undefined
    for (let fruitless = 0; !signal.aborted; ) {
      const before = next
      let hasSkipped = false
      try {
        for await (const entry of this.#consume(next, seen, signal)) {
          hasSkipped = entry.position !== next
          if (hasSkipped) break
          seen = entry
          yield entry
          next++
        }
      } catch (err) {
        if (err instanceof LogLost) throw err
        this.#stream.logger.debug({ err, next }, 'a reader of the log ended: opening another one')
      }
      fruitless = next > before ? 0 : fruitless + 1
      if (signal.aborted) return
      if (fruitless >= fruitlessMax) {
        const entry = await this.#ask(next, fruitless >= gapMax)
        if (entry !== undefined) {
          seen = entry
          yield entry
          next++
          fruitless = 0
        }
      }
      // A server that skips a record is neither starting nor busy.
      await pause(Math.min(100 * fruitless, hasSkipped ? 100 : 1_000), signal)
    }
  }

  /**
   * Yields what one consumer delivers, until it is silent although the log has more.
   *
   * @param seen the record before, which must be unchanged
   */
  async *#consume(from: number, seen: LogEntry | undefined, signal: AbortSignal): AsyncGenerator<LogEntry> {
    const { js, jsm, name } = this.#stream
    const info = await createConsumer(this.#stream, seen?.position ?? from)
    const consumer = js.consumers.getConsumerFromInfo(info)
    let last = from - 1
    try {
      while (!signal.aborted) {
        const before = last
        const messages = await consumer.fetch({
          max_messages: messagesMax,
          expires: fetchMs,
          idle_heartbeat: heartbeatMs,
        })
        for await (const message of bounded(messages, signal)) {
          const entry = entryOfMessage(message)
          if (entry.position === seen?.position) {
            await this.#checkSame(entry, seen)
            continue
          }
          last = entry.position
          yield entry
        }
        if (last === before && (await this.#isBehind(last))) return
      }
    } finally {
      // If this request is lost, the server deletes the consumer on its own.
      void jsm.consumers.delete(name, info.name).catch(() => {})
    }
  }

  /**
   * Detects a log that was set back and has grown again: it has other records at positions that were already read.
   *
   * @throws LogLost
   */
  async #checkSame(found: LogEntry, seen: LogEntry): Promise<void> {
    if (isSame(found, seen)) return
    // A single server can be wrong: the leader decides.
    const entry = await this.#log.get(seen.position)
    if (entry === undefined || isSame(entry, seen)) return
    throw new LogLost(`the record at position ${seen.position} is no longer the same`)
  }

  async #isBehind(position: number): Promise<boolean> {
    const { last } = await this.#log.bounds()
    if (last >= position) return last > position
    // A server that has just started may not know the end of the log yet.
    await pause(settleMs)
    if ((await this.#log.bounds()).last >= position) return true
    throw new LogLost(`the log ends at position ${last}: it had a record at ${position}`)
  }

  /**
   * Asks the leader for the record at a position; undefined while the servers do not answer, or when there is none
   * yet.
   *
   * @param isLast whether the record is gone if the leader lacks it, too
   * @throws LogGap when the record is gone
   */
  async #ask(position: number, isLast: boolean): Promise<LogEntry | undefined> {
    const { logger, name } = this.#stream
    try {
      const { first, last } = await this.#log.bounds()
      if (position > last) return undefined
      const entry = position < first ? undefined : await this.#log.get(position)
      if (entry !== undefined) {
        logger.warn({ stream: name, position }, 'a log server lacks a record that the leader has')
        return entry
      }
      if (position >= first && !isLast) return undefined
      throw new LogGap(position, Math.max(first, position + 1))
    } catch (err) {
      if (err instanceof LogGap || err instanceof LogLost) throw err
      logger.debug({ err, position }, 'the log does not answer')
      return undefined
    }
  }
}

function isSame(one: LogEntry, other: LogEntry): boolean {
  return one.appendedMs === other.appendedMs && Buffer.compare(one.record, other.record) === 0
}

/**
 * Yields the messages of a fetch. Ends when aborted, and after a silence: the client may not notice that its server
 * is gone.
 */
async function* bounded(
  messages: AsyncIterable<JsMsg> & { stop(error?: Error): void },
  signal: AbortSignal,
): AsyncGenerator<JsMsg> {
  const stop = (): void => messages.stop()
  let timer = setTimeout(stop, silenceMs)
  signal.addEventListener('abort', stop)
  try {
    for await (const message of messages) {
      clearTimeout(timer)
      yield message
      timer = setTimeout(stop, silenceMs)
    }
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    messages.stop()
  }
}

/** Records per fetch: all of them are in memory together. */
const messagesMax = 32
/** A fetch without records ends after this time. The log is then asked whether there are any. */
const fetchMs = 1_000
const heartbeatMs = 500
/** Much longer than a fetch takes. */
const silenceMs = 3_000
const settleMs = 2_000
/** After so many consecutive consumers that deliver nothing, the leader is asked. */
const fruitlessMax = 3
/** With one damaged server of three, this many consumers all live on it once in fourteen million times. */
const gapMax = 15
