import { DatabaseError } from '../base/errors.ts'

/** A text that waits or is being embedded. Calls that need the same text share it. */
export interface WaitingText {
  readonly text: string
  /** Key of the text in the cache. */
  readonly key: string
  readonly embedded: Promise<Float32Array>
  readonly resolve: (vector: Float32Array) => void
  readonly reject: (error: DatabaseError) => void
  /** Number of calls that wait for the text. */
  calls: number
  /** Undefined while the text is in a queue. */
  batch: TextBatch | undefined
}

/** Texts that are sent to the endpoint together. */
export interface TextBatch {
  readonly texts: readonly WaitingText[]
  readonly stop: AbortController
}

/** All texts that wait or are being embedded, by key. */
export class WaitingTexts {
  readonly #all = new Map<string, WaitingText>()
  /** Queues of texts that have not been sent yet: those of small calls, such as searches, and those of large calls. */
  readonly #small = new Set<WaitingText>()
  readonly #large = new Set<WaitingText>()

  get count(): number {
    return this.#all.size
  }

  get queued(): number {
    return this.#small.size + this.#large.size
  }

  has(key: string): boolean {
    return this.#all.has(key)
  }

  /**
   * Adds a call to those that wait for a text. The first call puts the text into a queue.
   *
   * @param isLarge whether the call has more texts than fit into a batch
   */
  join(key: string, text: string, isLarge: boolean): WaitingText {
    const waiting = this.#all.get(key) ?? this.#add(key, text)
    waiting.calls += 1
    if (waiting.batch === undefined) {
      if (isLarge && !this.#small.has(waiting)) this.#large.add(waiting)
      else if (!isLarge) {
        this.#large.delete(waiting)
        this.#small.add(waiting)
      }
    }
    return waiting
  }

  /**
   * Removes a call that no longer needs a text. A text that no call needs is not sent. A request whose texts no call
   * needs is aborted.
   */
  leave(waiting: WaitingText): void {
    waiting.calls -= 1
    if (waiting.calls > 0 || this.#all.get(waiting.key) !== waiting) return
    const { batch } = waiting
    if (batch === undefined) this.#remove(waiting)
    else if (batch.texts.every(({ calls }) => calls === 0)) {
      for (const each of batch.texts) this.#remove(each)
      batch.stop.abort(noCalls)
    }
  }

  /**
   * Takes the next texts off the queues. Small calls go first, so that a search does not wait for an import. Large
   * calls keep half of each batch.
   */
  nextBatch(maxTexts: number, maxLength: number): TextBatch {
    const share = this.#large.size === 0 ? maxTexts : Math.ceil(maxTexts / 2)
    const texts: WaitingText[] = []
    let length = 0
    for (const [queue, most] of [
      [this.#small, share],
      [this.#large, maxTexts],
    ] as const) {
      for (const waiting of queue) {
        if (texts.length === most || (texts.length > 0 && length + waiting.text.length > maxLength)) break
        queue.delete(waiting)
        texts.push(waiting)
        length += waiting.text.length
      }
    }
    return this.batchOf(texts)
  }

  batchOf(texts: readonly WaitingText[]): TextBatch {
    const batch = { texts, stop: new AbortController() }
    for (const waiting of texts) waiting.batch = batch
    return batch
  }

  /** Returns the texts that calls still wait for, and removes the others. */
  needed(texts: readonly WaitingText[]): readonly WaitingText[] {
    for (const waiting of texts) if (waiting.calls === 0) this.#remove(waiting)
    return texts.filter(({ calls }) => calls > 0)
  }

  resolve(waiting: WaitingText, vector: Float32Array): void {
    this.#remove(waiting)
    waiting.resolve(vector)
  }

  reject(waiting: WaitingText, error: DatabaseError): void {
    this.#remove(waiting)
    waiting.reject(error)
  }

  rejectAll(error: DatabaseError): void {
    for (const waiting of [...this.#all.values()]) {
      this.reject(waiting, error)
      waiting.batch?.stop.abort(error)
    }
  }

  #add(key: string, text: string): WaitingText {
    const { promise, resolve, reject } = Promise.withResolvers<Float32Array>()
    // All calls may have left before the text fails, and the rejection must not count as unhandled.
    promise.catch(() => {})
    const waiting: WaitingText = { text, key, embedded: promise, resolve, reject, calls: 0, batch: undefined }
    this.#all.set(key, waiting)
    return waiting
  }

  /**
   * Removes a text. A later call may have added the same text again, so the map entry is removed only if it is this
   * one.
   */
  #remove(waiting: WaitingText): void {
    this.#small.delete(waiting)
    this.#large.delete(waiting)
    if (this.#all.get(waiting.key) === waiting) this.#all.delete(waiting.key)
  }
}

const noCalls = new DatabaseError('cancelled', 'nobody waits for these texts')
