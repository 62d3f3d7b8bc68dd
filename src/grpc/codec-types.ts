import type { OperationName, OperationTypes } from '../api/operations.ts'

/** Decodes and encodes the messages of an operation in gRPC. */
export interface Codec<Name extends OperationName> {
  /** A promise for a request that is read in turns, such as one with a large filter. */
  readonly decode: (bytes: Buffer) => OperationTypes[Name]['input'] | Promise<OperationTypes[Name]['input']>
  /** A promise for an answer so large that it is written in turns. */
  readonly encode: (output: OperationTypes[Name]['output']) => Buffer | Promise<Buffer>
}
