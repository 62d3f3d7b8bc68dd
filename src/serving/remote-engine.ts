import { Audit } from '../api/audit.ts'
import type { ApiContext, Call, Collections, Database, Lease } from '../api/call.ts'
import { type OperationName, operations } from '../api/operations.ts'
import { type SlowRequest, SlowRequests } from '../api/slow-requests.ts'
import { DatabaseError } from '../base/errors.ts'
import type { SearchResults } from '../base/id-lists.ts'
import type { Point } from '../base/point.ts'
import { Meter } from '../base/quotas.ts'
import type { AuditLevel } from '../base/setting-info.ts'
import type { LocalReads } from '../collections/local-reads.ts'
import type { Config } from '../config.ts'
import type { Embedding } from '../embeddings/embedder.ts'
import { databaseMethods, type KnownCollection, type RemoteSnapshot } from './engine-calls.ts'
import type { Line } from './line.ts'
import type { SharedState } from './thread-setup.ts'

/** What the operations on a serving thread run against: the engine, at the other end of a line. */
export function remoteContext(
  line: Line,
  state: SharedState,
  config: Config,
  reads: LocalReads,
  thread: number,
): ApiContext {
  const collections = new RemoteCollections(line, state, reads, thread)
  const database = remoteDatabase(line, reads, undefined, () => state.dimension)
  const { maxLimit, hnswEf, embeddingsUrl, embeddingsModel, embeddingsMaxTextBytes, rerankUrl } = config
  const audit = config.audit === 'off' ? undefined : remoteAudit(line, config.audit)
  return {
    get database() {
      if (!state.isReady) throw new DatabaseError('not_ready', 'the stored points are still loading')
      return database
    },
    get collections() {
      if (!state.isReady) throw new DatabaseError('not_ready', 'the stored points are still loading')
      return collections as unknown as Collections
    },
    limits: { maxLimit, hnswEf },
    // The engine's thread has checked that a URL has its model.
    embeddings:
      embeddingsUrl === undefined
        ? undefined
        : {
            model: embeddingsModel!,
            maxTextBytes: embeddingsMaxTextBytes,
            embed: async (texts, signal) => (await line.ask('embed', texts, signal)) as readonly Embedding[],
          },
    reranker:
      rerankUrl === undefined
        ? undefined
        : {
            rerank: async (query, documents, signal) =>
              (await line.ask('rerank', query, documents, signal)) as readonly number[],
          },
    slowRequests: new RemoteSlowRequests(line, config),
    audit,
    elsewhere(given, input, call) {
      const name = given as OperationName
      if (isHere(name)) return undefined
      const flushed = name === 'ListAudit' ? audit?.flush() : undefined
      return flushed === undefined
        ? run(line, name, input, call)
        : flushed.then(() => run(line, name, input, call))
    },
  }
}

/** Hands lines over as soon as the engine's thread has taken those before. */
function remoteAudit(line: Line, level: AuditLevel): Audit {
  return new Audit({
    level,
    waitMs: 0,
    async write(lines, lost) {
      await line.ask('audit', lines, lost)
    },
  })
}

class RemoteSlowRequests extends SlowRequests {
  readonly #line: Line

  constructor(line: Line, options: Pick<Config, 'slowQueryMs' | 'slowQueriesKept'>) {
    super(options)
    this.#line = line
  }

  override add(request: Omit<SlowRequest, 'timeMs'>): void {
    this.#line.tell('slow', request)
  }
}

/**
 * Whether an operation runs on the thread that has received it: those on points are checked there. All others run on
 * the engine's thread, and so do evaluations, each of which is many searches.
 */
function isHere(name: OperationName): boolean {
  const { concerns, admission } = operations[name]
  return concerns === 'points' && admission === undefined && name !== 'EvaluatePoints'
}

async function run(
  line: Line,
  name: OperationName,
  input: unknown,
  { fields, key, collection, version, signal }: Call,
): Promise<unknown> {
  const output = await line.ask('operation', name, input, {
    ...{ fields, key, collection, version, signal },
  })
  return operations[name].isStreamed ? { snapshot: remoteSnapshot(line, output as RemoteSnapshot) } : output
}

function remoteSnapshot(line: Line, { number, ...figures }: RemoteSnapshot): object {
  return {
    ...figures,
    async *chunks() {
      for (;;) {
        const chunk = (await line.ask('chunk', number)) as Uint8Array | undefined
        if (chunk === undefined) return
        yield Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      }
    },
    close: () => line.tell('closeSnapshot', number),
  }
}

/** The methods of a collection whose arguments are sent to the engine as they are. */
function remoteDatabase(
  line: Line,
  reads: LocalReads,
  name: string | undefined,
  dimension: () => number | undefined,
): Database {
  const methods = databaseMethods.map((method) => [
    method,
    (...inputs: unknown[]) => line.ask('database', name, method, inputs),
  ])
  const search: Database['search'] = async (queries, call) =>
    (await reads.search(name, queries, call)) ??
    ((await line.ask('database', name, 'search', [queries, call])) as SearchResults)
  const count: Database['count'] = async (filter, signal) =>
    (await reads.count(name, filter, signal)) ??
    ((await line.ask('database', name, 'count', [filter, signal])) as number)
  const get: Database['get'] = async (id, call) =>
    (call?.keyFilter === undefined ? await reads.get(name, id, call) : undefined) ??
    ((await line.ask('database', name, 'get', [id, call])) as Point | undefined)
  const database = {
    ...Object.fromEntries(methods),
    get,
    search,
    count,
    get nowUs() {
      return Date.now() * 1000
    },
  }
  return Object.defineProperty(database, 'dimension', { get: dimension }) as Database
}

type Known = Omit<KnownCollection, 'meter'> & { readonly meter: Meter | undefined }

/** Collections by name. What is known of them is kept while the engine's catalog stays as it is. */
class RemoteCollections implements Pick<Collections, 'lease' | 'aliases' | 'nameOf' | 'meterOf'> {
  readonly #line: Line
  readonly #state: SharedState
  readonly #reads: LocalReads
  readonly #thread: number
  readonly #known = new Map<string, Known>()
  /** Those of the collections that have been leased. */
  readonly #aliases = new Map<string, string>()
  #catalog = 0

  constructor(line: Line, state: SharedState, reads: LocalReads, thread: number) {
    this.#line = line
    this.#state = state
    this.#reads = reads
    this.#thread = thread
  }

  get aliases(): ReadonlyMap<string, string> {
    return this.#aliases
  }

  lease(name: string): Lease | Promise<Lease> {
    this.#forget()
    const known = this.#known.get(name)
    return known === undefined ? this.#learn(name) : this.#leaseOf(name, known)
  }

  nameOf(name: string): string | Promise<string> {
    this.#forget()
    return this.#known.get(name)?.name ?? (this.#line.ask('nameOf', name) as Promise<string>)
  }

  /** Counts in the memory of the engine's meter. */
  meterOf(name: string): Meter | undefined | Promise<Meter | undefined> {
    this.#forget()
    const known = this.#known.get(name)
    return known === undefined ? this.#ask(name).then(({ meter }) => meter) : known.meter
  }

  async #learn(name: string): Promise<Lease> {
    return this.#leaseOf(name, await this.#ask(name))
  }

  async #ask(name: string): Promise<Known> {
    const { catalog } = this.#state
    const { meter, ...answer } = (await this.#line.ask('collection', name)) as KnownCollection
    const known = { ...answer, meter: meter && new Meter(meter, this.#thread) }
    this.#forget()
    if (catalog === this.#catalog) this.#known.set(name, known)
    if (known.name !== name) this.#aliases.set(name, known.name)
    return known
  }

  #forget(): void {
    const { catalog } = this.#state
    if (catalog === this.#catalog && this.#known.size < knownMax) return
    this.#catalog = catalog
    this.#known.clear()
    this.#aliases.clear()
  }

  #leaseOf(name: string, first: Known): Lease {
    const dimension = (): number | undefined => {
      const now = this.#known.get(name)
      // An alias may mean another collection before the request ends.
      return (now?.name === first.name ? now : first).dimension
    }
    return { database: remoteDatabase(this.#line, this.#reads, first.name, dimension), [Symbol.dispose]() {} }
  }
}

const knownMax = 10_000
