import { DatabaseError } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { LoggedResult } from '../write/requests.ts'

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

/** Identifies a request of the log forever: the node that received it, its run, and a number. */
export interface RequestIdentifier {
  readonly origin: string
  readonly request: number
}

/** A caller's wait for an outcome, to be disposed. */
interface Waiting extends Disposable {
  readonly ended: Promise<Ended>
}

/**
 * The outcomes of requests on this node, for callers that wait until a request is applied. The latest are kept: a
 * request can be applied before a second attempt of it arrives here, from a node whose first attempt got no answer.
 */
export class Outcomes {
  readonly #waiting = new Map<string, { readonly ended: PromiseWithResolvers<Ended>; callers: number }>()
  readonly #recent = new Map<string, Ended>()
  #items = 0
  #end: Error | undefined

  /** The outcome, which resolves when the request is applied here. */
  expect(identifier: RequestIdentifier): Waiting {
    const key = keyOf(identifier)
    const known = this.#recent.get(key)
    if (known !== undefined) return { ended: Promise.resolve(known), [Symbol.dispose]: () => {} }
    const waiting = this.#waiting.get(key) ?? { ended: Promise.withResolvers<Ended>(), callers: 0 }
    // It may be rejected before anybody waits for it.
    waiting.ended.promise.catch(() => {})
    waiting.callers += 1
    if (this.#end === undefined) this.#waiting.set(key, waiting)
    else waiting.ended.reject(this.#end)
    return {
      ended: waiting.ended.promise,
      [Symbol.dispose]: () => {
        waiting.callers -= 1
        if (waiting.callers === 0) this.#waiting.delete(key)
      },
    }
  }

  /** The outcome of a request that was applied here not long ago. */
  known(identifier: RequestIdentifier): Ended | undefined {
    return this.#recent.get(keyOf(identifier))
  }

  settle(identifier: RequestIdentifier, ended: Ended): void {
    const key = keyOf(identifier)
    this.#waiting.get(key)?.ended.resolve(ended)
    this.#forget(key)
    this.#recent.set(key, ended)
    this.#items += itemsOf(ended)
    for (const oldest of this.#recent.keys()) {
      if (this.#recent.size <= countMax && this.#items <= itemsMax) break
      this.#forget(oldest)
    }
  }

  #forget(key: string): void {
    const known = this.#recent.get(key)
    if (known === undefined) return
    this.#recent.delete(key)
    this.#items -= itemsOf(known)
  }

  /** Rejects all callers: nothing is applied any more. */
  end(error: Error): void {
    this.#end = error
    for (const { ended } of this.#waiting.values()) ended.reject(error)
    this.#waiting.clear()
  }
}

function keyOf({ origin, request }: RequestIdentifier): string {
  return `${origin}-${request}`
}

function itemsOf(outcome: Outcome): number {
  if ('error' in outcome) return errorItems
  const { result } = outcome
  if (result instanceof Map) return 1 + result.size
  if (typeof result !== 'object' || !('ids' in result)) return 1
  return 1 + result.ids.length + errorItems * result.errors.length
}

/** A second or more of records, in some 20 MB: attempts follow each other within seconds. */
const countMax = 16_384
/** An id takes some 60 bytes, */
const itemsMax = 262_144
/** and an error with its stack 900. */
const errorItems = 16

/** The error of a write when nobody knows yet whether it will be applied. */
export function uncertain(cause: unknown): DatabaseError {
  return new DatabaseError(
    'not_ready',
    'the write may have been stored: repeat it with the same idempotency key',
    { cause },
  )
}
