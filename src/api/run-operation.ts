import type { Keyring } from '../base/api-key.ts'
import { defaultCollection } from '../base/collection.ts'
import {
  cancellation,
  type DatabaseError,
  invalid,
  PartitionsUnavailable,
  type Reason,
  toDatabaseError,
} from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { filterText } from '../base/filter-text.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics, Transport } from '../base/metrics.ts'
import type { Meter } from '../base/quotas.ts'
import {
  type Consistency,
  consistencies,
  consistencyHeader,
  positionHeader,
  positionOf,
} from '../base/request-headers.ts'
import type { Audit } from './audit.ts'
import {
  type ApiContext,
  type Call,
  type ClusterReads,
  collectionNameOf,
  contextOn,
  type Database,
} from './call.ts'
import { checkName } from './collections.ts'
import { contextFor, refusalOf } from './key-rights.ts'
import { type OperationName, type OperationRow, type OperationTypes, operations } from './operations.ts'
import type { SearchAnswer } from './search-points.ts'
import type { RequestFacts } from './slow-requests.ts'

/** What a transport passes to every call in addition to the input. */
export interface OperationRunner {
  readonly context: ApiContext
  readonly transport: Transport
  readonly metrics: ServiceMetrics
  readonly logger: Logger
  /** Undefined where no key is needed. */
  readonly keys?: Keyring | undefined
}

/** Converts one call for a transport: request bytes to the input, and the output to answer bytes. */
interface CallCodec<Name extends OperationName, Answer> {
  /** Returns a promise for an input so large that it is decoded in turns. */
  readonly decode: () => OperationTypes[Name]['input'] | Promise<OperationTypes[Name]['input']>
  /** Returns a promise for an answer that is encoded in turns, or sent as a stream. */
  readonly encode: (output: OperationTypes[Name]['output']) => Answer | Promise<Answer>
}

/**
 * Runs one operation for any transport, from decoding to encoding. Counts and times it, and fails only with a
 * `DatabaseError`. Logs an error that is not the caller's fault, with its cause, so that transports need not.
 */
export async function runOperation<Name extends OperationName, Answer>(
  runner: OperationRunner,
  name: Name,
  { decode, encode }: CallCodec<Name, Answer>,
  call: Call,
): Promise<Answer> {
  const started = performance.now()
  const seen: Seen = { context: undefined, name: undefined, input: undefined, output: undefined }
  const { slowRequests, elsewhere, audit } = runner.context
  const { run: operation, role, concerns, describedBy, ...row }: OperationRow<Name> = operations[name]
  const admission = row.admission ?? role
  const meter = call.key && runner.keys?.meterOf(call.key)
  const leave: (() => void)[] = []
  try {
    const refusal = refusalOf(call.key, name, { role, within: row.within })
    if (refusal !== undefined) throw refusal
    if (meter !== undefined) leave.push(meter.enter(row.isSearch))
    const { cluster } = runner.context
    const position =
      cluster === undefined || admission === 'now'
        ? undefined
        : await admit(cluster, call, admission === 'write')
    const inContext = async (context: ApiContext): Promise<Answer> => {
      seen.context = context
      // The caller can have left while the collection was opened: then the request's bytes are gone.
      if (call.signal?.aborted) throw cancellation(call.signal)
      const input = await decode()
      if (describedBy === 'input') seen.input = input
      if (concerns !== 'points') seen.name = (input as { readonly name?: string } | undefined)?.name
      if (concerns === 'points' && admission !== 'now') {
        const asked = context.collections.meterOf?.(call.collection ?? defaultCollection)
        const ofCollection = asked instanceof Promise ? await asked : asked
        if (ofCollection !== undefined) leave.push(ofCollection.enter(row.isSearch))
      }
      const output = await ((elsewhere?.(name, input, call) as ReturnType<typeof operation> | undefined) ??
        operation(context, input, call))
      seen.output = output
      return await encode(output)
    }
    const answer =
      concerns === 'points' || concerns === 'collections'
        ? await inCollection(runner.context, { ...call, meter }, position, inContext)
        : await inContext(runner.context)
    const ms = performance.now() - started
    noteRequest(runner, name, 'ok', ms)
    if (audit !== undefined) noteAudit(audit, runner.transport, name, call, seen)
    if (slowRequests?.isSlow(ms)) noteSlow(runner, name, call, seen, ms, 'ok')
    return answer
  } catch (thrown) {
    const error = toDatabaseError(thrown)
    const ms = performance.now() - started
    noteRequest(runner, name, error.reason, ms)
    if (audit !== undefined) noteAudit(audit, runner.transport, name, call, seen, error.reason)
    if (error instanceof PartitionsUnavailable) runner.metrics.unanswered()
    if (slowRequests?.isSlow(ms)) noteSlow(runner, name, call, seen, ms, error.reason)
    logFault(runner, name, error)
    throw error
  } finally {
    for (const each of leave) each()
  }
}

/** What has been seen of a call so far. */
interface Seen {
  context: ApiContext | undefined
  /** Of the collection, the node or the key that the input names. */
  name: string | undefined
  /** Only where it describes a slow request: the input of an insert is as large as its points. */
  input: unknown
  output: unknown
}

/** Adds a line to the audit. @param error absent if the call has succeeded */
function noteAudit(
  audit: Audit,
  transport: Transport,
  operation: OperationName,
  call: Call,
  { context, name }: Seen,
  error?: Reason,
): void {
  const { role, concerns } = operations[operation]
  const ofPoints = (): string =>
    context === undefined ? (call.collection ?? defaultCollection) : collectionNameOf(context, call)
  audit.note({
    key: call.key?.name,
    operation,
    collection: concerns === 'collections' ? name : concerns === 'points' ? ofPoints() : undefined,
    // Otherwise it is any text: perhaps a key that was sent in place of its name.
    target: concerns === 'collections' || error !== undefined ? undefined : name,
    error,
    transport,
    address: call.address?.(),
    role,
  })
}

/** Keeps a slow request, unless its collection was not found. */
function noteSlow(
  { context: { slowRequests }, transport }: OperationRunner,
  operation: OperationName,
  call: Call,
  { context, input, output }: Seen,
  tookMs: number,
  outcome: string,
): void {
  if (context === undefined || operations[operation].describedBy === undefined) return
  const collection = collectionNameOf(context, call)
  const facts = requestFacts(input, output)
  slowRequests?.add({ collection, operation, transport, tookMs, outcome, ...facts })
}

/** Describes a request and its result, for the list of slow requests. */
function requestFacts(input: unknown, output: unknown): RequestFacts {
  if (isSearch(output)) return factsOfSearch(output)
  const { filter, limit } = (input ?? {}) as { readonly filter?: Filter; readonly limit?: unknown }
  return {
    ...(typeof limit === 'number' ? { limit } : {}),
    ...(filter === undefined ? {} : { filter: filterText(filter, filterMax) }),
  }
}

function isSearch(output: unknown): output is SearchAnswer {
  return typeof output === 'object' && output !== null && 'queries' in output && 'results' in output
}

function factsOfSearch({ queries, results }: SearchAnswer): RequestFacts {
  const [query] = queries
  if (query === undefined) return { queries: 0, hits: 0 }
  const { metric, limit, ef, filter } = query
  return {
    ...(queries.length > 1 ? { queries: queries.length } : {}),
    metric,
    limit,
    ef,
    ...results.plans[0],
    ...(filter === undefined ? {} : { filter: filterText(filter, filterMax) }),
    hits: results.ids.total,
  }
}

const filterMax = 300

/**
 * Runs an operation on the collection that its call names, and keeps the collection open meanwhile. It sees what the
 * key of the call allows.
 *
 * @param position in a cluster, what reads must have reached
 */
export function inCollection<Output>(
  all: ApiContext,
  { collection, key, meter }: Pick<Call, 'collection' | 'key'> & { readonly meter?: Meter | undefined },
  position: number | undefined,
  operation: (context: ApiContext) => Promise<Output>,
): Promise<Output> {
  const context = contextFor(all, key, meter)
  if (collection !== undefined) return inNamedCollection(context, collection, position, operation)
  return operation(position === undefined ? context : contextAt(context, () => context.database, position))
}

async function inNamedCollection<Output>(
  context: ApiContext,
  name: string,
  position: number | undefined,
  operation: (context: ApiContext) => Promise<Output>,
): Promise<Output> {
  using lease = await context.collections.lease(checkName(name, 'collection'))
  return await operation(contextAt(context, () => lease.database, position))
}

/** The context of an operation on a database, whose reads must have reached a position. */
function contextAt(
  context: ApiContext,
  databaseOf: () => Database,
  position: number | undefined,
): ApiContext {
  const databaseAt = (): Database => {
    const database = databaseOf()
    return position === undefined ? database : (database.asOf?.(position) ?? database)
  }
  return contextOn(context, context.collections, databaseAt, position)
}

/** Counts a call; never logs its contents. */
function noteRequest(
  { metrics, logger, transport }: OperationRunner,
  operation: OperationName,
  outcome: string,
  ms: number,
): void {
  metrics.request(operation, transport, outcome, ms / 1000)
  if (logger.isLevelEnabled('debug')) {
    logger.debug({ operation, transport, outcome, ms: Math.round(ms * 100) / 100 }, 'request')
  }
}

/** Logs internal errors only: others, such as a full disk, are logged once, by the storage. */
function logFault(runner: OperationRunner, operation: OperationName, error: DatabaseError): void {
  // A collection that cannot be opened refuses many calls with one error.
  if (error.reason === 'internal' && !loggedFaults.has(error)) {
    loggedFaults.add(error)
    runner.logger.error({ operation, transport: runner.transport, err: error.cause ?? error }, error.message)
  }
}

const loggedFaults = new WeakSet<DatabaseError>()

/**
 * Waits until this cluster node is as up to date as the call asks. A write only needs the position that its caller has
 * seen.
 *
 * @returns the position that other nodes must have reached
 */
async function admit(cluster: ClusterReads, call: Call, isWrite: boolean): Promise<number> {
  const asked = checkConsistency(call.consistency)
  const position = checkPosition(call.position)
  const consistency = isWrite ? 'session' : asked
  if (consistency === 'available') return 0
  const needed = isWrite ? position : Math.max(position, cluster.acknowledged)
  if (consistency === 'session' && needed <= cluster.position) return needed
  return await cluster.admit({ consistency, position: needed }, call.signal)
}

function checkConsistency(given = 'session'): Consistency {
  const consistency = consistencies.find((each) => each === given)
  if (consistency !== undefined) return consistency
  throw invalid(`${consistencyHeader} is ${given.slice(0, 100)}: it is one of ${consistencies.join(', ')}`)
}

function checkPosition(given = '0'): number {
  const position = positionOf(given)
  if (position !== undefined) return position
  throw invalid(`${positionHeader} is ${given.slice(0, 100)}: it is a whole number from an earlier answer`)
}
