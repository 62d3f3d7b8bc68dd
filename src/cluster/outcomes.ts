import type { PartitionSet } from '../base/partitions.ts'
import type { LoggedResult } from '../engine/logged-request.ts'

/** How a request of the log ended on this node; `created` of a collection. */
export type Outcome = (
  | { readonly result: LoggedResult | { readonly created: boolean } | undefined }
  | { readonly error: unknown }
) & {
  /** The partitions that this node had then, if not all: the outcome is about what was in them. */
  readonly held?: PartitionSet | undefined
}

/** An outcome, and where in the log its request was. */
export type Ended = Outcome & { readonly position: number }

/** Those who wait for the requests that this process has sent to the log. */
export class Outcomes {
  readonly #origin: string
  readonly #waiting = new Map<number, PromiseWithResolvers<Ended>>()
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
  expect(): { readonly request: number; readonly outcome: Promise<Ended> } {
    this.#requests += 1
    const waiting = Promise.withResolvers<Ended>()
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

  settle(origin: string, request: number, ended: Ended): void {
    if (origin === this.#origin) this.#waiting.get(request)?.resolve(ended)
  }

  /** Nothing is applied any more. */
  end(error: Error): void {
    this.#end = error
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
