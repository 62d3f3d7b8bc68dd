import type { BudgetShare } from '../base/budgets.ts'
import { DatabaseError } from '../base/errors.ts'
import { bytesOf, dimensionOf, type RequestSource, type WriteRequest } from './requests.ts'

/** A request that waits for its group, is carried out, or is answered. */
export interface Queued extends RequestSource {
  readonly request: WriteRequest
  readonly bytes: number
  /** The length of its vectors; undefined if it has none. */
  readonly dimension: number | undefined
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

/** The requests that wait for their group, in order. Main thread only. */
export class WriteQueue {
  readonly #bytes: BudgetShare
  #requests: Queued[] = []
  /** Resolved when the next request without vectors is added. */
  #passing: PromiseWithResolvers<void> | undefined

  /** @param bytes the bytes of requests that wait for the disk or are on their way to it */
  constructor(bytes: BudgetShare) {
    this.#bytes = bytes
  }

  get isEmpty(): boolean {
    return this.#requests.length === 0
  }

  /**
   * Adds a request; settles when the request is answered.
   *
   * @param isLimited whether to refuse the request if too many bytes wait
   */
  add(request: WriteRequest, source: RequestSource, isLimited: boolean): Promise<unknown> {
    const bytes = bytesOf(request)
    const refusal = isLimited ? this.#bytes.refusal(bytes) : undefined
    if (refusal !== undefined) return Promise.reject(refusal)
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    // Registered first, so that a caller who continues with the next request finds room.
    const release = (): void => {
      this.#bytes.release(bytes)
    }
    promise.then(release, release)
    const dimension = dimensionOf(request)
    this.#requests.push({ ...source, request, bytes, dimension, resolve, reject })
    this.#bytes.hold(bytes)
    if (dimension === undefined) this.#passing?.resolve()
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
  ): Queued[] {
    const names = new Set<string>()
    let bytes = 0
    let count = 0
    let keys = 0
    let dimension = fixedDimension
    const bytesMax = Math.min(groupBytes, comingBytesMax)
    for (const queued of this.#requests) {
      if (bytes >= bytesMax || (count > 0 && isAlone(queued)) || hasOneOf(names, queued)) break
      if (isKeyed(queued) && ++keys > keysMax) break
      if (fixedDimension === undefined && queued.dimension !== undefined) {
        dimension ??= queued.dimension
        if (queued.dimension !== dimension) break
      }
      for (const name of namesOf(queued)) names.add(name)
      bytes += queued.bytes
      count += 1
      if (isAlone(queued)) break
    }
    return this.#requests.splice(0, count)
  }

  /**
   * Takes a group of requests without vectors. They may pass requests with vectors, but not an earlier one for the same
   * point.
   */
  takePassing(): Queued[] {
    const names = new Set<string>()
    const taken = new Set<Queued>()
    for (const queued of this.#requests) {
      const isTaken = queued.dimension === undefined && !hasOneOf(names, queued)
      if (isTaken && isAlone(queued) && taken.size > 0) break
      for (const name of namesOf(queued)) names.add(name)
      if (isTaken) taken.add(queued)
      if (isTaken && isAlone(queued)) break
    }
    if (taken.size > 0) this.#requests = this.#requests.filter((queued) => !taken.has(queued))
    return [...taken]
  }

  /** Refuses the requests with vectors, because the index has had no room for too long. */
  refuseVectors(isRebuilding: boolean): void {
    const cause = isRebuilding
      ? 'the graph of the collection is being rebuilt, and points arrive faster than it can take them'
      : 'points arrive faster than they can be indexed'
    const refused = this.#requests.filter(({ dimension }) => dimension !== undefined)
    this.#requests = this.#requests.filter(({ dimension }) => dimension === undefined)
    for (const { reject } of refused) {
      reject(new DatabaseError('overloaded', `${cause}: try again later`))
    }
  }

  refuseAll(error: Error): void {
    for (const { reject } of this.#requests.splice(0)) reject(error)
  }
}

/** A group stops growing at this size: about 10 ms on a disk that writes 1.6 GB/s, so that no group waits long. */
const groupBytes = 16 * 1024 * 1024

function isKeyed({ request }: Queued): boolean {
  return request.kind === 'insert' && request.identity !== undefined
}

/** Whether the request can touch any point and must form a group alone. */
function isAlone({ request: { kind } }: Queued): boolean {
  return kind === 'filter' || kind === 'take' || kind === 'clear'
}

/**
 * Yields what no two requests of a group have in common: the ids that their callers know, and their keys. The points of
 * a group can therefore be looked up before any of its changes has taken effect.
 */
function* namesOf({ request, drawnIds }: Queued): Generator<string, void> {
  if (request.kind === 'insert') {
    if (request.identity !== undefined) yield Buffer.from(request.identity.keyHash).toString('base64')
    for (const { id } of request.points) if (id !== undefined) yield id
    if (drawnIds !== undefined) yield* drawnIds
  } else if (request.kind === 'each' || request.kind === 'expire') yield* request.ids
  else if ('id' in request) yield request.id
}

function hasOneOf(names: ReadonlySet<string>, queued: Queued): boolean {
  if (names.size === 0) return false
  for (const name of namesOf(queued)) if (names.has(name)) return true
  return false
}
