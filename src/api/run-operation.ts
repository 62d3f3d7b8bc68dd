import { type DatabaseError, toDatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics, Transport } from '../base/metrics.ts'
import type { ApiContext, Call } from './call.ts'
import { type Operation, type OperationName, type OperationTypes, operations } from './operations.ts'

/** What a transport hands to every call besides the input. */
export interface OperationRunner {
  readonly context: ApiContext
  readonly transport: Transport
  readonly metrics: ServiceMetrics
  readonly logger: Logger
}

/** A transport's spelling of one call: its bytes to the input, the output to its bytes. */
export interface CallCodec<Name extends OperationName, Answer> {
  readonly decode: () => OperationTypes[Name]['input']
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
  const operation: Operation<OperationTypes[Name]['input'], OperationTypes[Name]['output']> = operations[name]
  try {
    const answer = await encode(await operation(runner.context, decode(), call))
    runner.metrics.request(name, runner.transport, 'ok', (performance.now() - started) / 1000)
    return answer
  } catch (thrown) {
    const error = toDatabaseError(thrown)
    runner.metrics.request(name, runner.transport, error.reason, (performance.now() - started) / 1000)
    logFault(runner, name, error)
    throw error
  }
}

function logFault(runner: OperationRunner, operation: OperationName, error: DatabaseError): void {
  if (error.reason === 'internal' || error.reason === 'disk_full') {
    runner.logger.error({ operation, transport: runner.transport, err: error.cause ?? error }, error.message)
  }
}
