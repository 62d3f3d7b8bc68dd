import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf'
import { type CallOptions, Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import { VectorDB } from '../../src/messages/generated/vectordb_pb.js'

/** The outcome of a call: its status code and text, and the answer if the code is 0. */
export interface GrpcOutcome {
  readonly code: number
  readonly text: string
  readonly answer: unknown
}

/** Calls methods with any bytes and metadata. The product's client can send only valid ones. */
export class RawGrpc implements Disposable {
  readonly #client: Client
  readonly #key: string

  constructor(address: string, key: string) {
    this.#client = new Client(address, credentials.createInsecure(), { 'grpc.max_send_message_length': -1 })
    this.#key = key
  }

  /** Sends a message made by the generated types. */
  call(method: string, request: object, options: RawCallOptions = {}): Promise<GrpcOutcome> {
    const description = descriptionOf(method)
    return this.send(
      description,
      toBinary(description.input, create(description.input, request as MessageInitShape<DescMessage>)),
      options,
    )
  }

  /** Sends bytes unchanged. */
  send(method: DescMethod | string, bytes: Uint8Array, options: RawCallOptions = {}): Promise<GrpcOutcome> {
    const description = typeof method === 'string' ? descriptionOf(method) : method
    const metadata = new Metadata()
    for (const value of options.authorization ?? [this.#key]) metadata.add('authorization', value)
    for (const [name, value] of Object.entries(options.metadata ?? {})) metadata.add(name, value)
    const callOptions: CallOptions = options.deadlineMs ? { deadline: Date.now() + options.deadlineMs } : {}
    return new Promise((resolve) => {
      const done = (error: ServiceError | null, answer: unknown): void =>
        resolve(
          error
            ? { code: error.code, text: error.details, answer: undefined }
            : { code: 0, text: '', answer },
        )
      this.#client.makeUnaryRequest(
        `/${description.parent.typeName}/${description.name}`,
        (body: Uint8Array) => Buffer.from(body),
        (body: Buffer) => fromBinary(description.output, body),
        bytes,
        metadata,
        callOptions,
        done,
      )
    })
  }

  [Symbol.dispose](): void {
    this.#client.close()
  }
}

interface RawCallOptions {
  /** Values of the `authorization` metadata; default: the valid key. */
  readonly authorization?: readonly string[]
  readonly deadlineMs?: number
  /** Further metadata. */
  readonly metadata?: Readonly<Record<string, string>>
}

function descriptionOf(method: string): DescMethod {
  const found = VectorDB.methods.find(({ name }) => name === method)
  if (found === undefined) throw new Error(`no method ${method} in the service`)
  return found
}
