import { DatabaseError } from '../base/errors.ts'
import type { BudgetShare } from './shared-budget.ts'
import { type Answer, dimensionOf, type WriteRequest } from './write-request.ts'

/** Requests that wait for their group, in order. Main thread only. */
export class WriteQueue {
  readonly #bytes: BudgetShare
  #requests: WriteRequest[] = []
  /** Of whoever waited last for a removal. */
  #removal: PromiseWithResolvers<void> | undefined

  /** @param bytes of requests that wait for the disk or are on their way to it */
  constructor(bytes: BudgetShare) {
    this.#bytes = bytes
  }

  get isEmpty(): boolean {
    return this.#requests.length === 0
  }

  /** Why a request of so many bytes cannot be added now. */
  refusal(bytes: number): DatabaseError | undefined {
    return this.#bytes.refusal(bytes)
  }

  /** Adds a request; settles as it is answered. */
  add<Result>(bytes: number, requestOf: (answer: Answer<Result>) => WriteRequest): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    // Before anybody else hears of the answer, so that whoever goes on with the next request finds room.
    const release = (): void => {
      this.#bytes.release(bytes)
    }
    promise.then(release, release)
    const request = requestOf({ bytes, resolve, reject })
    this.#requests.push(request)
    this.#bytes.hold(bytes)
    if (request.kind === 'remove') this.#removal?.resolve()
    return promise
  }

  /** Resolves when the next removal has been added. */
  nextRemoval(): Promise<void> {
    this.#removal = Promise.withResolvers()
    return this.#removal.promise
  }

  /**
   * As many requests as a group holds and the index takes at once, in order. A second removal of the same point, or a
   * second insert under the same key, starts the next group: what it has to answer depends on whether the first one
   * succeeds. So does an insert that brings another dimension than those before it to an empty collection.
   *
   * @param fixedDimension undefined for an empty collection
   * @param comingBytesMax how much the index takes at once
   */
  takeGroup(fixedDimension: number | undefined, comingBytesMax: number): WriteRequest[] {
    const names = new Set<string>()
    let bytes = 0
    let count = 0
    let dimension = fixedDimension
    const bytesMax = Math.min(groupBytes, comingBytesMax)
    for (const request of this.#requests) {
      const name = request.kind === 'remove' ? request.id : request.keyed?.name
      if (bytes >= bytesMax || (name !== undefined && names.has(name))) break
      if (fixedDimension === undefined && request.kind === 'insert') {
        dimension ??= dimensionOf(request)
        if (dimensionOf(request) !== dimension) break
      }
      if (name !== undefined) names.add(name)
      bytes += request.bytes
      count += 1
    }
    return this.#requests.splice(0, count)
  }

  /** All removals that wait, but one of each point. */
  takeRemovals(): WriteRequest[] {
    const removals = new Map<string, WriteRequest>()
    for (const request of this.#requests) {
      if (request.kind === 'remove' && !removals.has(request.id)) removals.set(request.id, request)
    }
    const taken = new Set(removals.values())
    if (taken.size > 0) this.#requests = this.#requests.filter((request) => !taken.has(request))
    return [...taken]
  }

  refuseInserts(): void {
    const refused = this.#requests.filter(({ kind }) => kind === 'insert')
    this.#requests = this.#requests.filter(({ kind }) => kind !== 'insert')
    for (const request of refused) {
      request.reject(
        new DatabaseError(
          'overloaded',
          'points come faster than they can be put into the index: try again later',
        ),
      )
    }
  }

  refuseAll(error: DatabaseError): void {
    for (const request of this.#requests.splice(0)) request.reject(error)
  }
}

/** A group stops growing here: about 10 ms of a disk that writes 1.6 GB/s, so that no group waits long. */
const groupBytes = 16 * 1024 * 1024
