import { DatabaseError, type Reason, reasons } from '../base/errors.ts'
import { PartitionSet } from '../base/partitions.ts'
import type { LoggedRequest, LoggedResult, LoggedResults } from '../write/logged-request.ts'
import type { Outcome } from './outcomes.ts'

/** A question to another node: the outcome of the request at a log position, for the points of some partitions. */
export interface OutcomeQuestion {
  readonly position: number
  readonly partitions: PartitionSet
}

export function encodeQuestion({ position, partitions }: OutcomeQuestion): Buffer {
  const bytes = Buffer.alloc(8 + partitions.bytes.length)
  bytes.writeDoubleLE(position)
  bytes.set(partitions.bytes, 8)
  return bytes
}

/** @throws RangeError when these are not the bytes of a question */
export function decodeQuestion(bytes: Uint8Array): OutcomeQuestion {
  const from = Buffer.from(bytes)
  return { position: from.readDoubleLE(), partitions: new PartitionSet(from.subarray(8)) }
}

/** An outcome without what the asking node already knows: the ids of an insert follow from the request. */
type AnswerBody =
  | { readonly error: WrittenError }
  | { readonly errors: readonly (WrittenError & { readonly index: number })[] }
  | { readonly changed: readonly (readonly [number, number])[] }
  | { readonly value: unknown }

interface WrittenError {
  readonly reason: string
  readonly message: string
}

/** Encodes an outcome as JSON in UTF-8: most answers have some tens of bytes, and batches with errors are rare. */
export function encodeOutcome(outcome: Outcome): Buffer {
  return Buffer.from(JSON.stringify(bodyOf(outcome)))
}

/** @throws DatabaseError with which the request was refused */
export function decodeResult(request: LoggedRequest, bytes: Uint8Array): LoggedResult {
  const body = JSON.parse(Buffer.from(bytes).toString()) as AnswerBody
  if ('error' in body) throw readError(body.error)
  if ('errors' in body) {
    const errors = body.errors.map(({ index, ...error }) => ({ index, error: readError(error) }))
    return { ids: [], errors }
  }
  if ('changed' in body) return new Map(body.changed)
  return body.value as LoggedResults[Exclude<typeof request.kind, 'insert' | 'each'>]
}

function bodyOf(outcome: Outcome): AnswerBody {
  if ('error' in outcome) {
    if (!(outcome.error instanceof DatabaseError)) throw outcome.error
    return { error: writtenError(outcome.error) }
  }
  const { result } = outcome
  if (result instanceof Map) return { changed: [...result] }
  if (typeof result === 'object' && 'ids' in result) {
    return { errors: result.errors.map(({ index, error }) => ({ index, ...writtenError(error) })) }
  }
  return { value: result }
}

function writtenError({ reason, message }: DatabaseError): WrittenError {
  return { reason, message }
}

function readError({ reason, message }: WrittenError): DatabaseError {
  return new DatabaseError(Object.hasOwn(reasons, reason) ? (reason as Reason) : 'internal', message)
}
