import { type DatabaseError, invalid, PartitionsUnavailable, toDatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics, Transport } from '../base/metrics.ts'
import {
  type Consistency,
  consistencies,
  consistencyHeader,
  positionHeader,
  positionOf,
} from '../base/request-headers.ts'
import { type ApiContext, type Call, type ClusterReads, collectionNameOf, type Database } from './call.ts'
import { checkName } from './collections.ts'
import { type OperationName, type OperationRow, type OperationTypes, operations } from './operations.ts'
import { requestFacts, type SlowRequests } from './slow-requests.ts'

/** What a transport passes to every call in addition to the input. */
export interface OperationRunner {
  readonly context: ApiContext
  readonly transport: Transport
  readonly metrics: ServiceMetrics
  readonly logger: Logger
  readonly slowRequests: SlowRequests
}

/** Converts one call for a transport: request bytes to the input, and the output to answer bytes. */
interface CallCodec<Name extends OperationName, Answer> {
  /** Returns a promise for an input so large that it is decoded in turns. */
  readonly decode: () => OperationTypes[Name]['input'] | Promise<OperationTypes[Name]['input']>
  /** Returns a promise for an answer so large that it is encoded in turns. */
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
  const seen: Seen = { context: undefined, input: undefined, output: undefined }
  const { run: operation, describedBy }: OperationRow<Name> = operations[name]
  try {
    const { cluster } = runner.context
    const position =
      cluster === undefined ? undefined : await admit(cluster, call, operations[name].role === 'write')
    seen.output = await inCollection(runner.context, call, position, (context) => {
      seen.context = context
      const input = decode()
      const run = (whole: OperationTypes[Name]['input']): Promise<OperationTypes[Name]['output']> => {
        if (describedBy === 'input') seen.input = whole
        return operation(context, whole, call)
      }
      return input instanceof Promise ? input.then(run) : run(input)
    })
    const answer = await encode(seen.output as OperationTypes[Name]['output'])
    const ms = performance.now() - started
    noteRequest(runner, name, 'ok', ms)
    if (runner.slowRequests.isSlow(ms)) noteSlow(runner, name, call, seen, ms, 'ok')
    return answer
  } catch (thrown) {
    const error = toDatabaseError(thrown)
    const ms = performance.now() - started
    noteRequest(runner, name, error.reason, ms)
    if (error instanceof PartitionsUnavailable) runner.metrics.unanswered()
    if (runner.slowRequests.isSlow(ms)) noteSlow(runner, name, call, seen, ms, error.reason)
    logFault(runner, name, error)
    throw error
  }
}

/** What has been seen of a call so far. */
interface Seen {
  context: ApiContext | undefined
  /** Only where it describes a slow request: the input of an insert is as large as its points. */
  input: unknown
  output: unknown
}

/** Keeps a slow request, unless its collection was not found. */
function noteSlow(
  { slowRequests, transport }: OperationRunner,
  operation: OperationName,
  call: Call,
  { context, input, output }: Seen,
  tookMs: number,
  outcome: string,
): void {
  if (context === undefined || operations[operation].describedBy === undefined) return
  const collection = collectionNameOf(context, call)
  const facts = requestFacts(context, input, output)
  slowRequests.add({ collection, operation, transport, tookMs, outcome, ...facts })
}

/**
 * Runs an operation on the collection that its call names, and keeps the collection open meanwhile.
 *
 * @param position in a cluster, what reads must have reached
 */
function inCollection<Output>(
  context: ApiContext,
  { collection }: Call,
  position: number | undefined,
  operation: (context: ApiContext) => Promise<Output>,
): Promise<Output> {
  if (collection !== undefined) return inNamedCollection(context, collection, position, operation)
  return operation(position === undefined ? context : contextOf(context, context.database, position))
}

async function inNamedCollection<Output>(
  context: ApiContext,
  name: string,
  position: number | undefined,
  operation: (context: ApiContext) => Promise<Output>,
): Promise<Output> {
  using lease = await context.collections.lease(checkName(name, 'collection'))
  return await operation(contextOf(context, lease.database, position))
}

/** The context of an operation on a database, whose reads must have reached a position. */
function contextOf(
  { collections, limits, embeddings }: ApiContext,
  database: Database,
  position: number | undefined,
): ApiContext {
  const asOf = position === undefined ? undefined : database.asOf?.(position)
  return { collections, limits, embeddings, position, database: asOf ?? database }
}

/** Counts a call of an operation or of another request that a transport offers; never logs its contents. */
export function noteRequest(
  { metrics, logger, transport }: Omit<OperationRunner, 'context' | 'slowRequests'>,
  operation: string,
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
export async function admit(cluster: ClusterReads, call: AskedPosition, isWrite = false): Promise<number> {
  const asked = checkConsistency(call.consistency)
  const position = checkPosition(call.position)
  const consistency = isWrite ? 'session' : asked
  if (consistency === 'latest' || (consistency === 'session' && position > cluster.position)) {
    return await cluster.admit({ consistency, position }, call.signal)
  }
  return consistency === 'session' ? Math.max(position, cluster.acknowledged) : 0
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

export type AskedPosition = Pick<Call, 'consistency' | 'position' | 'signal'>
