import type { LoggedResult } from '../engine/logged-request.ts'

/** How a request of the log ended on this node; `created` of a collection. */
export type Outcome =
  | { readonly result: LoggedResult | { readonly created: boolean } | undefined }
  | { readonly error: unknown }

/** Those who wait for the requests that this process has sent to the log. */
export class Outcomes {
  readonly #origin: string
  readonly #waiting = new Map<number, PromiseWithResolvers<Outcome>>()
  #requests = 0
  #end: Error | undefined

  /** @param origin unique for ever: the node's name and something unique to its run */
  constructor(origin: string) {
    this.#origin = origin
  }

  get count(): number {
    return this.#waiting.size
  }

  /** The number of a new request, and its outcome once it has been applied here. */
  expect(): { readonly request: number; readonly outcome: Promise<Outcome> } {
    this.#requests += 1
    const waiting = Promise.withResolvers<Outcome>()
    // It may be refused before anybody waits.
    waiting.promise.catch(() => {})
    if (this.#end === undefined) this.#waiting.set(this.#requests, waiting)
    else waiting.reject(this.#end)
    return { request: this.#requests, outcome: waiting.promise }
  }

  /** Nobody waits for the request any more. */
  forget(request: number): void {
    this.#waiting.delete(request)
  }

  settle(origin: string, request: number, outcome: Outcome): void {
    if (origin === this.#origin) this.#waiting.get(request)?.resolve(outcome)
  }

  /** Nothing is applied any more. */
  end(error: Error): void {
    this.#end = error
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
