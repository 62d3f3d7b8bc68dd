import { type Signal, signal } from '@preact/signals'
import { isAbort, messageOf } from '../api/client.ts'
import { type SearchInput, type SearchOutput, search } from '../api/points.ts'

/** The outcome of a search with one value of ef, for comparison with other values. */
export interface Try {
  /** 0 for the server's default. */
  readonly ef: number
  readonly tookMs: number
  /** Whether the server measured the time; otherwise it includes the round trip. */
  readonly onServer: boolean
  readonly recall: number | undefined
}

const keptTries = 8

/** Runs the searches of one view, one at a time. A new search cancels the running one. */
export class SearchRun {
  readonly output: Signal<SearchOutput | undefined> = signal(undefined)
  readonly fault: Signal<string | undefined> = signal(undefined)
  readonly busy: Signal<boolean> = signal(false)
  readonly tries: Signal<readonly Try[]> = signal([])
  #running: AbortController | undefined
  #last: { readonly input: Omit<SearchInput, 'signal'>; readonly compare: boolean } | undefined
  /** The ids of the last exact search, and its query. */
  #exact: { readonly question: string; readonly ids: ReadonlySet<string> } | undefined
  #question = ''

  async run(input: Omit<SearchInput, 'signal'>, compare: boolean): Promise<void> {
    this.stop()
    const running = new AbortController()
    this.#running = running
    this.#last = { input, compare }
    this.busy.value = true
    try {
      const { signal } = running
      const { ef: _ef, ...rest } = input
      const question = JSON.stringify(rest)
      if (question !== this.#question) this.tries.value = []
      this.#question = question
      const output = await search({ ...input, signal })
      if (signal.aborted) return
      this.output.value = output
      this.fault.value = undefined
      const recall = compare ? await this.#recallOf(output, question, { ...input, signal }) : undefined
      if (signal.aborted) return
      this.#note({ ef: input.ef ?? 0, ...timeOf(output), recall })
    } catch (error) {
      if (isAbort(error) || running.signal.aborted) return
      this.output.value = undefined
      this.fault.value = messageOf(error)
    } finally {
      if (this.#running === running) this.busy.value = false
    }
  }

  /** Repeats the last search, because its points have changed. */
  async repeat(): Promise<void> {
    if (this.#last === undefined) return
    // The exact result may contain a deleted point.
    this.#exact = undefined
    await this.run(this.#last.input, this.#last.compare)
  }

  stop(): void {
    this.#running?.abort()
    this.busy.value = false
  }

  async #recallOf({ hits }: SearchOutput, question: string, input: SearchInput): Promise<number> {
    if (this.#exact?.question !== question) {
      const exact = await search({ ...input, exact: true, idsOnly: true })
      this.#exact = { question, ids: new Set(exact.hits.map(({ id }) => id)) }
    }
    const { ids } = this.#exact
    return ids.size === 0 ? 1 : hits.filter(({ id }) => ids.has(id)).length / ids.size
  }

  #note(made: Try): void {
    const others = this.tries.value.filter(({ ef }) => ef !== made.ef)
    this.tries.value = [...others.slice(1 - keptTries), made].sort((a, b) => a.ef - b.ef)
  }
}

/** The time of the search itself if the server reports it; otherwise that of the round trip. */
function timeOf({ tookMs, profile }: SearchOutput): Pick<Try, 'tookMs' | 'onServer'> {
  const searchUs = profile?.search_us
  return typeof searchUs === 'number'
    ? { tookMs: searchUs / 1000, onServer: true }
    : { tookMs, onServer: false }
}
