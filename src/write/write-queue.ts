import { DatabaseError } from '../base/errors.ts'
import type { BudgetShare } from '../base/shared-budget.ts'
import { type Answer, dimensionOf, isAlone, namesOf, type WriteRequest } from './write-request.ts'

/** The requests that wait for their group, in order. Main thread only. */
export class WriteQueue {
  readonly #bytes: BudgetShare
  #requests: WriteRequest[] = []
  /** Resolved when the next request without vectors is added. */
  #passing: PromiseWithResolvers<void> | undefined

  /** @param bytes the bytes of requests that wait for the disk or are on their way to it */
  constructor(bytes: BudgetShare) {
    this.#bytes = bytes
  }

  get isEmpty(): boolean {
    return this.#requests.length === 0
  }

  /** Returns an error if a request of this many bytes cannot be added now. */
  refusal(bytes: number): DatabaseError | undefined {
    return this.#bytes.refusal(bytes)
  }

  /** Adds a request; settles when the request is answered. */
  add<Result>(bytes: number, requestOf: (answer: QueueAnswer<Result>) => WriteRequest): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    // Registered first, so that a caller who continues with the next request finds room.
    const release = (): void => {
      this.#bytes.release(bytes)
    }
    promise.then(release, release)
    const request = requestOf({ bytes, resolve, reject })
    this.#requests.push(request)
    this.#bytes.hold(bytes)
    if (!bringsVectors(request)) this.#passing?.resolve()
    return promise
  }

  /** Resolves when the next request without vectors has been added. */
  nextPassing(): Promise<void> {
    this.#passing = Promise.withResolvers()
    return this.#passing.promise
  }

  /**
   * Takes as many requests as fit into a group and the index accepts together, in order. These requests start the next
   * group:
   *
   * - a request for the same point as an earlier one of the group, or with the same key, because its answer depends on
   *   the earlier one
   * - in an empty collection, an insert with another dimension than those before it
   * - a request that can touch any point; it also forms a group alone
   *
   * @param fixedDimension undefined for an empty collection
   * @param comingBytesMax the most bytes that the index accepts together
   * @param keysMax the most requests with keys
   */
  takeGroup(
    fixedDimension: number | undefined,
    comingBytesMax: number,
    keysMax: number = Number.POSITIVE_INFINITY,
  ): WriteRequest[] {
    const names = new Set<string>()
    let bytes = 0
    let count = 0
    let keys = 0
    let dimension = fixedDimension
    const bytesMax = Math.min(groupBytes, comingBytesMax)
    for (const request of this.#requests) {
      if (bytes >= bytesMax || (count > 0 && isAlone(request)) || hasOneOf(names, request)) break
      if (isKeyed(request) && ++keys > keysMax) break
      if (fixedDimension === undefined && bringsVectors(request)) {
        dimension ??= dimensionOf(request)
        if (dimensionOf(request) !== dimension) break
      }
      for (const name of namesOf(request)) names.add(name)
      bytes += request.bytes
      count += 1
      if (isAlone(request)) break
    }
    return this.#requests.splice(0, count)
  }

  /**
   * Takes a group of requests without vectors. They may pass requests with vectors, but not an earlier one for the same
   * point.
   */
  takePassing(): WriteRequest[] {
    const names = new Set<string>()
    const taken = new Set<WriteRequest>()
    for (const request of this.#requests) {
      const isTaken = !bringsVectors(request) && !hasOneOf(names, request)
      if (isTaken && isAlone(request) && taken.size > 0) break
      for (const name of namesOf(request)) names.add(name)
      if (isTaken) taken.add(request)
      if (isTaken && isAlone(request)) break
    }
    if (taken.size > 0) this.#requests = this.#requests.filter((request) => !taken.has(request))
    return [...taken]
  }

  /** Refuses the requests with vectors, because the index has had no room for too long. */
  refuseVectors(isRebuilding: boolean): void {
    const cause = isRebuilding
      ? 'the graph of the collection is being rebuilt, and points arrive faster than it can take them'
      : 'points arrive faster than they can be indexed'
    const refused = this.#requests.filter(bringsVectors)
    this.#requests = this.#requests.filter((request) => !bringsVectors(request))
    for (const request of refused) {
      request.reject(new DatabaseError('overloaded', `${cause}: try again later`))
    }
  }

  refuseAll(error: DatabaseError): void {
    for (const request of this.#requests.splice(0)) request.reject(error)
  }
}

/** A group stops growing at this size: about 10 ms on a disk that writes 1.6 GB/s, so that no group waits long. */
const groupBytes = 16 * 1024 * 1024

/** The queue's part of a request's answer. */
export type QueueAnswer<Result> = Omit<Answer<Result>, 'signal'>

function isKeyed(request: WriteRequest): boolean {
  return request.kind === 'insert' && request.keyed !== undefined
}

function bringsVectors(request: WriteRequest): boolean {
  return dimensionOf(request) !== undefined
}

function hasOneOf(names: ReadonlySet<string>, request: WriteRequest): boolean {
  if (names.size === 0) return false
  for (const name of namesOf(request)) if (names.has(name)) return true
  return false
}
