import { DatabaseError } from '../base/errors.ts'

/** A text that is being embedded, or waits for it. Calls that need the same text share it. */
export interface WaitingText {
  readonly text: string
  /** In the cache. */
  readonly key: string
  readonly embedded: Promise<Float32Array>
  readonly resolve: (vector: Float32Array) => void
  readonly reject: (error: DatabaseError) => void
  /** Calls that wait for it. */
  calls: number
  /** Undefined while it waits. */
  batch: TextBatch | undefined
}

/** Texts that are sent to the endpoint together. */
export interface TextBatch {
  readonly texts: readonly WaitingText[]
  readonly stop: AbortController
}

/** The texts that wait or are being embedded, by their key. */
export class WaitingTexts {
  readonly #all = new Map<string, WaitingText>()
  /** Those that were not sent yet, each in the order of their arrival: of small calls, such as searches, and of large ones. */
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
   * Joins the calls that wait for this text; the first of them puts it into a queue.
   *
   * @param isLarge whether the call has more texts than go into a batch
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

  /** A call needs the text no longer. What nobody needs is not sent, and a request is aborted if it has nothing else. */
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

  /** Takes the next texts off the queues. Small calls go first: a search does not wait for an import. These keep half of a batch. */
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

  /** Those of the texts that calls still wait for; the others are forgotten. */
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
    // Whoever needs the text may have left when it fails.
    promise.catch(() => {})
    const waiting: WaitingText = { text, key, embedded: promise, resolve, reject, calls: 0, batch: undefined }
    this.#all.set(key, waiting)
    return waiting
  }

  /** A later call may have put the same text in again. */
  #remove(waiting: WaitingText): void {
    this.#small.delete(waiting)
    this.#large.delete(waiting)
    if (this.#all.get(waiting.key) === waiting) this.#all.delete(waiting.key)
  }
}

const noCalls = new DatabaseError('cancelled', 'nobody waits for these texts')
