import type { PartitionSet } from '../base/partitions.ts'
import type { LoggedResult } from '../write/logged-request.ts'

/** The outcome of a logged request on this node; `created` is for collections. */
export type Outcome = (
  | { readonly result: LoggedResult | { readonly created: boolean } | undefined }
  | { readonly error: unknown }
) & {
  /** The partitions that this node held then, if not all: the outcome covers only their points. */
  readonly held?: PartitionSet | undefined
}

/** An outcome, and the log position of its request. */
export type Ended = Outcome & { readonly position: number }

/** The callers that wait for requests that this process has sent to the log. */
export class Outcomes {
  readonly #origin: string
  readonly #waiting = new Map<number, PromiseWithResolvers<Ended>>()
  #requests = 0
  #end: Error | undefined

  /** @param origin unique forever: the node's name and a value unique to its run */
  constructor(origin: string) {
    this.#origin = origin
  }

  get count(): number {
    return this.#waiting.size
  }

  /** Returns the number of a new request, and its outcome, which resolves when the request has been applied here. */
  expect(): { readonly request: number; readonly outcome: Promise<Ended> } {
    this.#requests += 1
    const waiting = Promise.withResolvers<Ended>()
    // It may be rejected before anybody waits for it.
    waiting.promise.catch(() => {})
    if (this.#end === undefined) this.#waiting.set(this.#requests, waiting)
    else waiting.reject(this.#end)
    return { request: this.#requests, outcome: waiting.promise }
  }

  /** Removes a request that nobody waits for any more. */
  remove(request: number): void {
    this.#waiting.delete(request)
  }

  settle(origin: string, request: number, ended: Ended): void {
    if (origin === this.#origin) this.#waiting.get(request)?.resolve(ended)
  }

  /** Rejects all callers: nothing is applied any more. */
  end(error: Error): void {
    this.#end = error
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
