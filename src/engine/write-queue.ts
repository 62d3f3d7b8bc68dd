import { DatabaseError } from '../base/errors.ts'
import type { BudgetShare } from './shared-budget.ts'
import { type Answer, dimensionOf, isAlone, namesOf, type WriteRequest } from './write-request.ts'

/** Requests that wait for their group, in order. Main thread only. */
export class WriteQueue {
  readonly #bytes: BudgetShare
  #requests: WriteRequest[] = []
  /** Of whoever waited last for a request that brings no vectors. */
  #passing: PromiseWithResolvers<void> | undefined

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
  add<Result>(bytes: number, requestOf: (answer: QueueAnswer<Result>) => WriteRequest): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    // Before anybody else hears of the answer, so that whoever goes on with the next request finds room.
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

  /** Resolves when the next request that brings no vectors has been added. */
  nextPassing(): Promise<void> {
    this.#passing = Promise.withResolvers()
    return this.#passing.promise
  }

  /**
   * As many requests as a group holds and the index takes at once, in order. A request for a point that an earlier one of
   * the group is about, or a second one under the same key, starts the next group: what it has to answer depends on
   * whether the first one succeeds. So does an insert that brings another dimension than those before it to an empty
   * collection; and a request that can touch any point is a group by itself.
   *
   * @param fixedDimension undefined for an empty collection
   * @param comingBytesMax how much the index takes at once
   * @param keysMax requests with keys
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
      if (count > 0 && isMuchLater(this.#requests[0]!, request)) break
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

  /** A group of requests that bring no vectors, past those that do; but none past another one for the same point. */
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

  /** Refuses what brings vectors. */
  refuseVectors(): void {
    const refused = this.#requests.filter(bringsVectors)
    this.#requests = this.#requests.filter((request) => !bringsVectors(request))
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

/** What the queue knows of a request's answer. */
export type QueueAnswer<Result> = Omit<Answer<Result>, 'signal'>

function isKeyed(request: WriteRequest): boolean {
  return request.kind === 'insert' && request.keyed !== undefined
}

/**
 * Whether so much time of a log lies between two requests that a point could expire which the first one has changed in its
 * slot: `ChangeDecider` gives points another slot that expire within a minute.
 */
function isMuchLater(first: WriteRequest, request: WriteRequest): boolean {
  if (first.stamp === undefined || request.stamp === undefined) return false
  return request.stamp.nowUs - first.stamp.nowUs > groupUs
}

const groupUs = 30_000_000

function bringsVectors(request: WriteRequest): boolean {
  return dimensionOf(request) !== undefined
}

function hasOneOf(names: ReadonlySet<string>, request: WriteRequest): boolean {
  if (names.size === 0) return false
  for (const name of namesOf(request)) if (names.has(name)) return true
  return false
}
