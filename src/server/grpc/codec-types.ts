import type { OperationName, OperationTypes } from '../../api/operations.ts'
import type { AnswerRoom } from '../../base/byte-budget.ts'

/** Decodes and encodes the messages of an operation in gRPC. */
export interface Codec<Name extends OperationName> {
  /** Returns a promise for a request that is decoded in turns, such as one with a large filter. */
  readonly decode: (bytes: Buffer) => OperationTypes[Name]['input'] | Promise<OperationTypes[Name]['input']>
  /**
   * Returns a promise for an answer so large that it is encoded in turns.
   *
   * @param room counts the answer while it grows beyond what was read for it
   */
  readonly encode: (output: OperationTypes[Name]['output'], room?: AnswerRoom) => Buffer | Promise<Buffer>
}
