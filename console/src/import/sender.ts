import type { NewPoint } from '../api/types.ts'
import type { Job } from './messages.ts'

export interface Item {
  readonly place: number
  readonly point: NewPoint
}

export interface SenderEvents {
  /** Called for an item that the server refuses: it is left out. */
  readonly onRefused: (place: number, message: string) => void
  /** Called when the server cannot take a batch now, and when it has taken it after all. */
  readonly onWaiting: (reason: string | undefined) => void
}

/** Together about two minutes: a restart of the server is shorter. */
const retries = 12
const firstRetryMs = 250
const maxRetryMs = 15_000

/** Stores batches of points through the public API. */
export class Sender {
  readonly #job: Job
  readonly #events: SenderEvents
  readonly #signal: AbortSignal

  constructor(job: Job, events: SenderEvents, signal: AbortSignal) {
    this.#job = job
    this.#events = events
    this.#signal = signal
  }

  /** Stores a batch. The server names the first bad item of it: that is left out, and the rest is sent again. */
  async store(batch: readonly Item[]): Promise<number> {
    const items = [...batch]
    while (items.length > 0) {
      const refusal = await this.#send(items)
      if (refusal === undefined) break
      const match = /^vectors\[(\d+)\]\.?(.*)/s.exec(refusal)
      const bad = match === null ? undefined : items[Number(match[1])]
      if (bad === undefined) throw new Error(refusal)
      this.#events.onRefused(bad.place, match![2]!)
      items.splice(Number(match![1]), 1)
    }
    return items.length
  }

  /** @returns why the server refuses it, if it does */
  async #send(items: readonly Item[]): Promise<string | undefined> {
    const body = JSON.stringify({ vectors: items.map(({ point }) => point) })
    // The key depends on the points, so it is never used for others; and it is the same when an import goes on.
    const key = `console-${this.#job.importId}-${items[0]!.place}-${items.length}-${digestOf(body)}`
    for (let tried = 0; ; tried++) {
      const answer = await this.#post(body, key)
      if (answer.status === 200 || answer.status === 201) {
        if (tried > 0) this.#events.onWaiting(undefined)
        return undefined
      }
      const isTemporary = [0, 429, 503].includes(answer.status)
      if (!isTemporary || tried === retries) return answer.text
      this.#events.onWaiting(answer.text)
      await pause(Math.min(maxRetryMs, firstRetryMs * 2 ** tried), this.#signal)
    }
  }

  async #post(
    body: string,
    idempotencyKey: string,
  ): Promise<{ readonly status: number; readonly text: string }> {
    const { url, key } = this.#job
    const headers = {
      'content-type': 'application/json',
      'idempotency-key': idempotencyKey,
      ...(key === undefined ? {} : { authorization: key }),
    }
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers,
        body,
        signal: this.#signal,
        cache: 'no-store',
      })
      // The ids are of no use here, but the connection is free only when all of them have been read.
      const text = (await response.text()).trim()
      return { status: response.status, text: response.ok ? '' : text }
    } catch (error) {
      this.#signal.throwIfAborted()
      return { status: 0, text: error instanceof TypeError ? 'The server does not answer.' : String(error) }
    }
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
  signal.throwIfAborted()
}

/**
 * Two FNV-1a hashes of 32 bits with different starts: enough to tell the batches of one file apart. `crypto.subtle` does
 * not exist on pages without https, other than localhost.
 */
function digestOf(text: string): string {
  let a = 0x811c9dc5
  let b = 0x01234567
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    a = Math.imul(a ^ code, 0x01000193)
    b = Math.imul(b ^ code ^ (b >>> 13), 0x01000193)
  }
  return `${(a >>> 0).toString(36)}${(b >>> 0).toString(36)}`
}
