import { type DatabaseError, PointsOutOfReach, toDatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics, Transport } from '../base/metrics.ts'
import type { PartialReads } from '../engine/database.ts'
import type { ApiContext, Call, Database } from './call.ts'
import { checkName } from './collections.ts'
import { type Operation, type OperationName, type OperationTypes, operations } from './operations.ts'
import { partialReads } from './partial-reads.ts'
import { admit } from './read-position.ts'
import { collectionNameOf, isDescribedByInput, isKeptIfSlow, requestFacts } from './request-facts.ts'
import type { SlowRequests } from './slow-requests.ts'

/** What a transport hands to every call besides the input. */
export interface OperationRunner {
  readonly context: ApiContext
  readonly transport: Transport
  readonly metrics: ServiceMetrics
  readonly logger: Logger
  readonly slowRequests: SlowRequests
}

/** Converts one call for a transport: its bytes to the input, and the output to its bytes. */
export interface CallCodec<Name extends OperationName, Answer> {
  /** A promise for an input so large that it is read in turns. */
  readonly decode: () => OperationTypes[Name]['input'] | Promise<OperationTypes[Name]['input']>
  /** A promise for an answer so large that it is made in turns. */
  readonly encode: (output: OperationTypes[Name]['output']) => Answer | Promise<Answer>
}

/**
 * Runs one operation as every transport must, from its decoding to its encoding: counted, timed, and failing
 * only with a `DatabaseError`. An error that is not the caller's is logged here, with its cause, so that
 * transports need not.
 */
export async function runOperation<Name extends OperationName, Answer>(
  runner: OperationRunner,
  name: Name,
  { decode, encode }: CallCodec<Name, Answer>,
  call: Call,
): Promise<Answer> {
  const started = performance.now()
  const seen: Seen = { context: undefined, input: undefined, output: undefined, isPartial: false }
  const operation: Operation<OperationTypes[Name]['input'], OperationTypes[Name]['output']> = operations[name]
  try {
    const { cluster } = runner.context
    const position = cluster === undefined ? undefined : await admit(cluster, name, call)
    const reads = position === undefined ? undefined : { position, partial: partialOf(name, call, seen) }
    seen.output = await inCollection(runner.context, call, reads, (context) => {
      seen.context = context
      const input = decode()
      const run = (whole: OperationTypes[Name]['input']): Promise<OperationTypes[Name]['output']> => {
        if (isDescribedByInput(name)) seen.input = whole
        return operation(context, whole, call)
      }
      return input instanceof Promise ? input.then(run) : run(input)
    })
    const answer = await encode(seen.output as OperationTypes[Name]['output'])
    const ms = performance.now() - started
    noteRequest(runner, name, 'ok', ms)
    if (seen.isPartial) runner.metrics.incomplete('partial')
    if (runner.slowRequests.isSlow(ms)) noteSlow(runner, name, call, seen, ms, 'ok')
    return answer
  } catch (thrown) {
    const error = toDatabaseError(thrown)
    const ms = performance.now() - started
    noteRequest(runner, name, error.reason, ms)
    if (error instanceof PointsOutOfReach) runner.metrics.incomplete('none')
    if (runner.slowRequests.isSlow(ms)) noteSlow(runner, name, call, seen, ms, error.reason)
    logFault(runner, name, error)
    throw error
  }
}

/** What has been seen of a call so far. */
interface Seen {
  context: ApiContext | undefined
  /** Only where a slow request is described by it: that of an insert is as large as its points. */
  input: unknown
  output: unknown
  /** Whether the answer lacks points of which no node answers. */
  isPartial: boolean
}

/** Whether the answer may be partial; notes it when it is. */
function partialOf(name: OperationName, call: Call, seen: Seen): PartialReads | undefined {
  if (call.partial === undefined) return undefined
  const onPartial = (missing: number): void => {
    seen.isPartial = true
    call.onPartial?.(missing)
  }
  return partialReads(name, { ...call, onPartial })
}

/** Those for which the collection was not found are not kept. */
function noteSlow(
  { slowRequests, transport }: OperationRunner,
  operation: OperationName,
  call: Call,
  { context, input, output }: Seen,
  tookMs: number,
  outcome: string,
): void {
  if (context === undefined || !isKeptIfSlow(operation)) return
  const collection = collectionNameOf(context, call)
  const facts = requestFacts(context, input, output)
  slowRequests.add({ collection, operation, transport, tookMs, outcome, ...facts })
}

/**
 * Runs an operation on the collection that its call names, which stays open meanwhile.
 *
 * @param reads in a cluster, what reads have to be as new as, and whether they may be partial
 */
async function inCollection<Output>(
  context: ApiContext,
  { collection }: Call,
  reads: ClusterReadTerms | undefined,
  operation: (context: ApiContext) => Promise<Output>,
): Promise<Output> {
  const { collections, limits, embeddings } = context
  if (collection === undefined) {
    if (reads === undefined) return operation(context)
    const { position } = reads
    return operation({
      ...{ collections, limits, embeddings, position },
      database: asOf(context.database, reads),
    })
  }
  using lease = await collections.lease(checkName(collection, 'collection'))
  const database = asOf(lease.database, reads)
  return await operation({ collections, limits, embeddings, position: reads?.position, database })
}

interface ClusterReadTerms {
  readonly position: number
  readonly partial: PartialReads | undefined
}

function asOf(database: Database, reads: ClusterReadTerms | undefined): Database {
  return reads === undefined ? database : (database.asOf?.(reads.position, reads.partial) ?? database)
}

/** Counts a call of an operation, or of something else that a transport offers; never logs its contents. */
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

/** Only internal errors: a full disk, for one, is logged once, by the storage. */
function logFault(runner: OperationRunner, operation: OperationName, error: DatabaseError): void {
  if (error.reason === 'internal') {
    runner.logger.error({ operation, transport: runner.transport, err: error.cause ?? error }, error.message)
  }
}
