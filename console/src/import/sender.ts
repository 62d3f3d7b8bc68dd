import type { NewPoint } from '../../../src/base/point.ts'
import { wait } from '../lib/wait.ts'
import type { Job } from './messages.ts'
import { pointJson } from './point-json.ts'

export interface Item {
  readonly place: number
  readonly point: NewPoint
}

export interface SenderEvents {
  /** Called for an item that the server refuses. The item is skipped. */
  readonly onRefused: (place: number, message: string) => void
  /** Called with a reason before each retry of a batch, and with undefined when a retry succeeds. */
  readonly onWaiting: (reason: string | undefined) => void
}

/** The start of the server's message about one item. */
const refusedPlace = /^vectors\[(\d+)\]\.?(.*)/s

/** The retries take about two minutes in total, longer than a restart of the server. */
const retries = 12
const firstRetryMs = 250
const maxRetryMs = 15_000

interface Answer {
  /** Null for an item that was refused. */
  readonly point_ids: readonly (string | null)[]
  readonly errors?: readonly { readonly index: number; readonly message: string }[]
}

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

  /**
   * Stores a batch and returns the ids of its points. If the server names a bad item, sends the batch again without it.
   * Items with ids are stored as far as they can be: a cluster does not decide about several of them together.
   */
  async store(batch: readonly Item[]): Promise<readonly string[]> {
    const items = [...batch]
    while (items.length > 0) {
      const answer = await this.#send(items)
      if (typeof answer !== 'string') {
        for (const { index, message } of answer.errors ?? [])
          this.#events.onRefused(items[index]!.place, message.replace(refusedPlace, '$2'))
        return answer.point_ids.filter((id) => id !== null)
      }
      const refusal = answer
      const match = refusedPlace.exec(refusal)
      const bad = match === null ? undefined : items[Number(match[1])]
      if (bad === undefined) throw new Error(refusal)
      this.#events.onRefused(bad.place, match![2]!)
      items.splice(Number(match![1]), 1)
    }
    return []
  }

  /** @returns the outcome, or why the server refuses the batch */
  async #send(items: readonly Item[]): Promise<Answer | string> {
    const rule = items.some(({ point }) => point.id !== undefined) ? ',"on_error":"continue"' : ''
    const body = `{"vectors":[${items.map(({ point }) => pointJson(point)).join(',')}]${rule}}`
    // The key depends on the points, so other points never share it. A resumed import computes the same key.
    const key = `console-${this.#job.importId}-${items[0]!.place}-${items.length}-${digestOf(body)}`
    for (let tried = 0; ; tried++) {
      const answer = await this.#post(body, key)
      if (answer.status === 200 || answer.status === 201) {
        if (tried > 0) this.#events.onWaiting(undefined)
        return JSON.parse(answer.text) as Answer
      }
      const isTemporary = [0, 429, 503].includes(answer.status)
      if (!isTemporary || tried === retries) return answer.text
      this.#events.onWaiting(answer.text)
      await wait(Math.min(maxRetryMs, firstRetryMs * 2 ** tried), this.#signal)
      this.#signal.throwIfAborted()
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
      return { status: response.status, text: (await response.text()).trim() }
    } catch (error) {
      this.#signal.throwIfAborted()
      return { status: 0, text: error instanceof TypeError ? 'The server does not respond.' : String(error) }
    }
  }
}

/**
 * Two 32-bit FNV-1a hashes with different initial values: enough to tell the batches of one file apart. `crypto.subtle`
 * exists only on https and localhost.
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
