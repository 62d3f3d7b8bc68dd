import { type Signal, signal } from '@preact/signals'
import { ApiError, call, collectionPath, messageOf } from '../api/client.ts'
import type { NewPoint } from '../api/types.ts'
import { type Mapping, pointOf } from '../lib/import-mapping.ts'
import { type Line, linesOf } from '../lib/json-lines.ts'

export type Phase = 'ready' | 'running' | 'paused' | 'done' | 'failed'

export interface LineFault {
  readonly line: number
  readonly message: string
}

/** Lines that are sent together, as far as they are not long. */
const batchPoints = 500
const batchCharacters = 4 * 1024 * 1024
/** Of more faults only the number is kept. */
const keptFaults = 200
const retries = 6
const retryMs = 500

interface Item {
  readonly line: number
  readonly point: NewPoint
}

/** Reads a file of JSON lines and stores its points, batch by batch. A bad line is noted and the others are stored. */
export class ImportRun {
  readonly phase: Signal<Phase> = signal('ready')
  readonly stored: Signal<number> = signal(0)
  readonly readBytes: Signal<number> = signal(0)
  readonly faults: Signal<readonly LineFault[]> = signal([])
  readonly faultCount: Signal<number> = signal(0)
  readonly message: Signal<string | undefined> = signal(undefined)
  readonly #stop = new AbortController()
  #resume: (() => void) | undefined

  async start(file: File, collection: string, mapping: Mapping, extended: boolean): Promise<void> {
    this.phase.value = 'running'
    try {
      for await (const { items, endBytes } of this.#batches(file, mapping, extended)) {
        await this.#whilePaused()
        await this.#store(collection, items)
        this.readBytes.value = endBytes
      }
      this.readBytes.value = file.size
      this.phase.value = 'done'
    } catch (error) {
      this.message.value = this.#stop.signal.aborted ? 'Stopped. What was stored stays.' : messageOf(error)
      this.phase.value = 'failed'
    }
  }

  pause(): void {
    if (this.phase.value === 'running') this.phase.value = 'paused'
  }

  resume(): void {
    if (this.phase.value !== 'paused') return
    this.phase.value = 'running'
    this.#resume?.()
  }

  stop(): void {
    this.#stop.abort()
    this.resume()
  }

  async #whilePaused(): Promise<void> {
    while (this.phase.value === 'paused') {
      await new Promise<void>((resolve) => {
        this.#resume = resolve
      })
    }
    this.#stop.signal.throwIfAborted()
  }

  async *#batches(
    file: File,
    mapping: Mapping,
    extended: boolean,
  ): AsyncGenerator<{ readonly items: Item[]; readonly endBytes: number }> {
    let items: Item[] = []
    let characters = 0
    let endBytes = 0
    for await (const line of linesOf(file)) {
      endBytes = line.endBytes
      const point = this.#pointOf(line, mapping, extended)
      if (point === undefined) continue
      items.push({ line: line.number, point })
      characters += line.text.length
      if (items.length < batchPoints && characters < batchCharacters) continue
      yield { items, endBytes }
      items = []
      characters = 0
    }
    if (items.length > 0) yield { items, endBytes }
  }

  #pointOf(line: Line, mapping: Mapping, extended: boolean): NewPoint | undefined {
    try {
      return pointOf(line.text, mapping, extended)
    } catch (error) {
      this.#note(line.number, messageOf(error))
      return undefined
    }
  }

  /** Stores a batch. The server names the first bad item of it; it is left out, and the rest is sent again. */
  async #store(collection: string, items: Item[]): Promise<void> {
    while (items.length > 0) {
      try {
        await this.#send(collection, items)
        this.stored.value += items.length
        return
      } catch (error) {
        const match = error instanceof ApiError ? /^vectors\[(\d+)\]\.?(.*)/s.exec(error.message) : null
        const bad = match === null ? undefined : items[Number(match[1])]
        if (bad === undefined) throw error
        this.#note(bad.line, match![2]!)
        items.splice(Number(match![1]), 1)
      }
    }
  }

  /** With a key, so that a batch whose answer was lost is not stored twice. */
  async #send(collection: string, items: readonly Item[]): Promise<void> {
    const path = `${collectionPath(collection)}/points/batch`
    const body = JSON.stringify({ vectors: items.map(({ point }) => point) })
    const headers = { 'idempotency-key': `console-${randomText()}` }
    for (let tried = 0; ; tried++) {
      try {
        await call('POST', path, { body, headers, signal: this.#stop.signal })
        return
      } catch (error) {
        const canRetry = error instanceof ApiError && [0, 429, 503].includes(error.status)
        if (!canRetry || tried === retries) throw error
        await new Promise((resolve) => setTimeout(resolve, retryMs * 2 ** tried))
        this.#stop.signal.throwIfAborted()
      }
    }
  }

  #note(line: number, message: string): void {
    this.faultCount.value++
    if (this.faults.value.length < keptFaults) this.faults.value = [...this.faults.value, { line, message }]
  }
}

/** `crypto.randomUUID` does not exist on pages without https, other than localhost. */
function randomText(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join('-')
}
