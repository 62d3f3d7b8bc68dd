import { computed, type ReadonlySignal, type Signal, signal } from '@preact/signals'
import { isAbort, messageOf } from '../api/client.ts'
import { countPoints, listPoints } from '../api/points.ts'
import type { JsonObject, Point } from '../api/types.ts'

const pagePoints = 50

/** The points of a collection that match a filter, page by page. */
export class PointList {
  readonly points: Signal<readonly Point[] | undefined> = signal(undefined)
  readonly count: Signal<number | undefined> = signal(undefined)
  readonly fault: Signal<string | undefined> = signal(undefined)
  readonly busy: Signal<boolean> = signal(false)
  readonly #cursor: Signal<string | undefined> = signal(undefined)
  readonly hasMore: ReadonlySignal<boolean> = computed(() => this.#cursor.value !== undefined)
  readonly #collection: string
  #filter: JsonObject = {}
  #running = new AbortController()

  constructor(collection: string) {
    this.#collection = collection
  }

  /** Loads the first page. */
  async load(filter: JsonObject): Promise<void> {
    this.stop()
    this.#running = new AbortController()
    const { signal } = this.#running
    this.#filter = filter
    await this.#run(signal, async () => {
      const [page, count] = await Promise.all([
        listPoints(this.#collection, { filter, limit: pagePoints, cursor: undefined }, signal),
        countPoints(this.#collection, filter, signal),
      ])
      this.points.value = page.points
      this.count.value = count
      this.#cursor.value = page.next_cursor
    })
  }

  /** Loads the first page again, with the same filter. */
  async reload(): Promise<void> {
    await this.load(this.#filter)
  }

  async more(): Promise<void> {
    const { signal } = this.#running
    const cursor = this.#cursor.value
    await this.#run(signal, async () => {
      const page = await listPoints(
        this.#collection,
        { filter: this.#filter, limit: pagePoints, cursor },
        signal,
      )
      this.points.value = [...(this.points.value ?? []), ...page.points]
      this.#cursor.value = page.next_cursor
    })
  }

  stop(): void {
    this.#running.abort()
  }

  async #run(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    this.busy.value = true
    try {
      await work()
      this.fault.value = undefined
    } catch (error) {
      if (!isAbort(error)) this.fault.value = messageOf(error)
    } finally {
      if (!signal.aborted) this.busy.value = false
    }
  }
}
