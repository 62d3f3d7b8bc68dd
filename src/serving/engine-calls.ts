import type { ApiContext, Call, PointsSnapshot } from '../api/call.ts'
import { collectionNameOf } from '../api/call.ts'
import type { TakenSnapshot } from '../api/inspect-service.ts'
import { type OperationName, type OperationRow, operations } from '../api/operations.ts'
import { inCollection } from '../api/run-operation.ts'
import type { SlowRequest } from '../api/slow-requests.ts'
import type { MeterSetup } from '../base/quotas.ts'
import type { Answers } from './line.ts'
import type { SharedState } from './thread-setup.ts'

/** The methods of a collection that serving threads call. */
type DatabaseMethod =
  | ('insert' | 'addedBy' | 'remove' | 'put' | 'patch' | 'changeByFilter')
  | ('get' | 'search' | 'list' | 'count' | 'facets')

export const databaseMethods: readonly DatabaseMethod[] = [
  ...(['insert', 'addedBy', 'remove', 'put', 'patch', 'changeByFilter'] as const),
  ...(['get', 'search', 'list', 'count', 'facets'] as const),
]

/** What a serving thread must know of a collection to check requests. */
export interface KnownCollection {
  /** Its own name, for an alias. */
  readonly name: string
  readonly dimension: number | undefined
  /** Absent if it has no quotas. */
  readonly meter?: MeterSetup | undefined
}

/** A snapshot that a serving thread reads over the line. */
export interface RemoteSnapshot extends Pick<PointsSnapshot, 'databaseId' | 'sequence' | 'points'> {
  readonly number: number
}

/**
 * The functions of the engine that one serving thread calls: methods of a collection, whole operations, and the chunks of
 * snapshots.
 */
export class EngineCalls {
  readonly #context: ApiContext
  readonly #state: SharedState
  readonly #snapshots = new Map<
    number,
    {
      readonly snapshot: PointsSnapshot
      readonly chunks: AsyncGenerator<Buffer>
      /** What is kept open for it. */
      readonly opened: DisposableStack
    }
  >()
  #lastSnapshot = 0

  constructor(context: ApiContext, state: SharedState) {
    this.#context = context
    this.#state = state
  }

  get answers(): Answers {
    return {
      database: (name: string | undefined, method: DatabaseMethod, inputs: unknown[]) =>
        this.#callDatabase(name, method, inputs),
      collection: (name: string) => this.#known(name),
      nameOf: (collection: string) => collectionNameOf(this.#context, { collection }),
      operation: (name: OperationName, input: undefined, call: Call) => this.#run(name, input, call),
      embed: (texts: readonly string[], signal: AbortSignal | undefined) =>
        this.#context.embeddings!.embed(texts, signal),
      rerank: (query: string, documents: readonly string[], signal: AbortSignal | undefined) =>
        this.#context.reranker!.rerank(query, documents, signal),
      chunk: (number: number) => this.#chunk(number),
      closeSnapshot: (number: number) => this.#closeSnapshot(number),
      audit: (lines: string, lost: number) => this.#context.audit?.add(lines, lost),
      slow: (request: SlowRequest) => this.#context.slowRequests?.add(request),
    }
  }

  /** The thread has ended. */
  close(): void {
    for (const number of [...this.#snapshots.keys()]) this.#closeSnapshot(number)
  }

  async #callDatabase(name: string | undefined, method: DatabaseMethod, inputs: unknown[]): Promise<unknown> {
    return await inCollection(this.#context, { collection: name }, undefined, async ({ database }) => {
      const { dimension } = database
      const call = database[method] as (...inputs: unknown[]) => Promise<unknown>
      const output = await call.apply(database, inputs)
      // Whoever learns of the answer finds the dimension that this call may have fixed.
      if (database.dimension !== dimension) this.#noteCollections()
      return output
    })
  }

  #noteCollections(): void {
    this.#state.dimension = this.#context.database.dimension
    this.#state.noteCatalog()
  }

  async #known(collection: string): Promise<KnownCollection> {
    const name = collectionNameOf(this.#context, { collection })
    return await inCollection(this.#context, { collection }, undefined, async ({ database }) => ({
      name,
      dimension: database.dimension,
      meter: await this.#meterOf(name),
    }))
  }

  async #meterOf(name: string): Promise<MeterSetup | undefined> {
    return (await this.#context.collections.meterOf?.(name))?.setup
  }

  async #run<Name extends OperationName>(name: Name, input: undefined, call: Call): Promise<unknown> {
    const { run, concerns, isStreamed }: OperationRow<Name> = operations[name]
    try {
      // The collection of a snapshot stays open until that is closed.
      using opened = new DisposableStack()
      const { collections } = this.#context
      if (isStreamed && call.collection !== undefined) opened.use(await collections.lease(call.collection))
      const output =
        concerns === 'points' || concerns === 'collections'
          ? await inCollection(this.#context, call, undefined, (context) =>
              run(context, input as never, call),
            )
          : await run(this.#context, input as never, call)
      return isStreamed ? this.#openSnapshot(output as TakenSnapshot, opened.move()) : output
    } finally {
      if (concerns === 'collections') this.#noteCollections()
    }
  }

  #openSnapshot({ snapshot, since }: TakenSnapshot, opened: DisposableStack): RemoteSnapshot {
    this.#lastSnapshot += 1
    const number = this.#lastSnapshot
    this.#snapshots.set(number, { snapshot, chunks: snapshot.chunks({ since }), opened })
    const { databaseId, sequence, points } = snapshot
    return { databaseId, sequence, points, number }
  }

  /** Returns the next chunk of a snapshot; undefined at its end. */
  async #chunk(number: number): Promise<Buffer | undefined> {
    const { done, value } = await this.#snapshots.get(number)!.chunks.next()
    return done === true ? undefined : value
  }

  #closeSnapshot(number: number): void {
    const { snapshot, chunks, opened } = this.#snapshots.get(number) ?? {}
    this.#snapshots.delete(number)
    // A caller who has left reads no further: only this closes the file of rows.
    // It can have failed meanwhile, and is of no use anyway.
    chunks?.return(undefined).catch(() => {})
    snapshot?.close()
    opened?.dispose()
  }
}
