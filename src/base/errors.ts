export type Reason =
  | 'invalid_argument'
  | 'key_reused'
  | 'unauthenticated'
  | 'permission_denied'
  | 'misdirected'
  | 'not_found'
  | 'collection_not_found'
  | 'already_exists'
  | 'precondition_failed'
  | 'cursor_expired'
  | 'route_not_found'
  | 'method_not_allowed'
  | 'unsupported_media_type'
  | 'request_too_large'
  | 'overloaded'
  | 'quota_exceeded'
  | 'cancelled'
  | 'deadline_exceeded'
  | 'not_ready'
  | 'shutting_down'
  | 'embeddings_unavailable'
  | 'rerank_unavailable'
  | 'disk_full'
  | 'memory_full'
  | 'files_exhausted'
  | 'internal'

/**
 * All reasons for which a call can fail, with the status that each transport sends. Code throws `DatabaseError` with
 * one of these reasons, and the transport looks up its status. Every other error is `internal`: it is logged with its
 * cause, and its text is never sent.
 */
export const reasons: Readonly<Record<Reason, { readonly grpc: number; readonly http: number }>> = {
  invalid_argument: { grpc: 3, http: 400 },
  key_reused: { grpc: 3, http: 422 },
  unauthenticated: { grpc: 16, http: 401 },
  permission_denied: { grpc: 7, http: 403 },
  misdirected: { grpc: 7, http: 421 },
  not_found: { grpc: 5, http: 404 },
  collection_not_found: { grpc: 5, http: 404 },
  already_exists: { grpc: 6, http: 409 },
  precondition_failed: { grpc: 9, http: 412 },
  cursor_expired: { grpc: 10, http: 410 },
  route_not_found: { grpc: 12, http: 404 },
  method_not_allowed: { grpc: 12, http: 405 },
  unsupported_media_type: { grpc: 3, http: 415 },
  request_too_large: { grpc: 8, http: 413 },
  overloaded: { grpc: 8, http: 429 },
  quota_exceeded: { grpc: 8, http: 429 },
  cancelled: { grpc: 1, http: 499 },
  deadline_exceeded: { grpc: 4, http: 504 },
  not_ready: { grpc: 14, http: 503 },
  shutting_down: { grpc: 14, http: 503 },
  embeddings_unavailable: { grpc: 14, http: 503 },
  rerank_unavailable: { grpc: 14, http: 503 },
  disk_full: { grpc: 8, http: 507 },
  memory_full: { grpc: 8, http: 507 },
  files_exhausted: { grpc: 8, http: 507 },
  internal: { grpc: 13, http: 500 },
}

/** The header, or the metadata of a gRPC status, with the reason of an error: several reasons share a status. */
export const reasonHeader = 'vicinal-reason'

/** The reason that a header names; undefined for any other text, as a proxy may send it. */
export function reasonIn(text: string | null | undefined): Reason | undefined {
  return text !== null && text !== undefined && Object.hasOwn(reasons, text) ? (text as Reason) : undefined
}

/** The first reason with this status of a transport, for one that names no reason. */
export function reasonOfStatus(transport: 'grpc' | 'http', status: number): Reason {
  return (Object.keys(reasons) as Reason[]).find((each) => reasons[each][transport] === status) ?? 'internal'
}

/** The message to the caller of an internal error. The cause is only logged. */
export const internalMessage = 'internal error: the server log has the details'

/** An error whose message may be sent to the caller. Its `cause` may not. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError'
  readonly reason: Reason

  constructor(reason: Reason, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.reason = reason
  }
}

/** Whether the server lacks disk space, memory or open files for a change now: a later attempt can succeed. */
export function lacksRoom(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && roomReasons.has(error.reason)
}

const roomReasons: ReadonlySet<Reason> = new Set(['disk_full', 'memory_full', 'files_exhausted'])

/** The error of a request that needs points for which no node of the cluster answers. */
export class PartitionsUnavailable extends DatabaseError {
  constructor(message: string, cause?: unknown) {
    super('not_ready', message, { cause })
  }
}

/**
 * Turns any thrown value into an error that may be sent: a `DatabaseError` stays unchanged, a file that cannot be opened
 * for now becomes `files_exhausted`, everything else `internal`, with the original as its cause.
 */
export function toDatabaseError(thrown: unknown): DatabaseError {
  if (thrown instanceof DatabaseError) return thrown
  if (isOpenFailure(thrown)) return filesExhausted(thrown)
  return new DatabaseError('internal', internalMessage, { cause: thrown })
}

/**
 * Whether an error only says that a file could not be opened or created now, because too many files are open or memory
 * is short. A failed open loses nothing, unlike a failed write or sync: what was written before is as it was, so the
 * disk can still be trusted.
 */
export function isOpenFailure(error: unknown): boolean {
  const { code = '', syscall = '' } = (error ?? {}) as NodeJS.ErrnoException
  return passingCodes.includes(code) && openCalls.includes(syscall)
}

export function filesExhausted(cause: unknown): DatabaseError {
  const what = 'a file cannot be opened, because the server has too many open files or too little memory'
  return new DatabaseError('files_exhausted', `${what}: try again later`, { cause })
}

const openCalls: readonly string[] = ['open', 'mkdir', 'scandir']
const passingCodes: readonly string[] = ['EMFILE', 'ENFILE', 'ENOMEM']

/** The error of an aborted call: the signal's reason, if that may be sent. */
export function cancellation(signal: AbortSignal): DatabaseError {
  if (signal.reason instanceof DatabaseError) return signal.reason
  return new DatabaseError('cancelled', 'the caller disconnected')
}

/**
 * Throws on a programming error. Callers' mistakes never get here: the api rejects them.
 * The message is for the log; a caller sees `internal`.
 */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`)
}

/**
 * The error for a vector whose length differs from the stored vectors.
 *
 * @param path place of the vector in the request, like `vectors[3].vector`
 */
export function wrongDimension(path: string, length: number, dimension: number): DatabaseError {
  return new DatabaseError(
    'invalid_argument',
    `${path} has ${length} dimensions, the collection has ${dimension}`,
  )
}

/** Why writes are rejected, while reads and searches continue. */
export type WritesBlocked = 'disk_full' | 'disk_failed'

/** The reasons in words, for people. */
export const writesBlockedTexts: Readonly<Record<WritesBlocked, string>> = {
  disk_full:
    'the disk is full: inserts are refused until there is space; reads, searches and deletes continue',
  disk_failed: 'the disk failed: changes are refused until a restart; reads and searches continue',
}

/** The error of a request that breaks a rule. The message names the place, the value and the limit. */
export function invalid(message: string): DatabaseError {
  return new DatabaseError('invalid_argument', message)
}

/** The error for damage that a repair can set aside: the file, the fault, and what to do. */
export function damaged(path: string, fault: string, cause?: unknown): DatabaseError {
  return new DatabaseError('internal', `${path} cannot be used: ${fault}. ${repairableAdvice}`, { cause })
}

/** The error for a row of the file of vectors. */
export function damagedRow(path: string, slot: number, position: number, isWhole: boolean): DatabaseError {
  const fault = isWhole ? 'damaged (its checksum does not match)' : 'cut off'
  return damaged(path, `the row of slot ${slot} at byte ${position} is ${fault}`)
}

/** The error for undamaged data of another format version. */
export function ofOtherVersion(path: string, fault: string): DatabaseError {
  return new DatabaseError(
    'internal',
    `${path} cannot be used: ${fault}. Nothing is damaged: start the program that wrote it, and see docs/upgrading.md.`,
  )
}

/** The error for damage that no repair can fix. */
export function beyondRepair(path: string, fault: string): DatabaseError {
  return new DatabaseError('internal', `${path} cannot be used: ${fault}. ${lostAdvice}`)
}

/** The error for a file that the system refuses to open, as it is a directory or belongs to another user. */
export function unopenable(
  path: string,
  cause: Error & { readonly code?: string | undefined },
): DatabaseError {
  const fault = `the system does not open it (${cause.code})`
  return new DatabaseError('internal', `${path} cannot be used: ${fault}. ${unopenableAdvice}`, { cause })
}

const unopenableAdvice = 'Check that it is a file that the service may read and write.'

const repairableAdvice =
  '`vicinal doctor` lists all damage, `vicinal doctor --repair` sets damaged points aside so that the rest can be served. Or restore a snapshot.'

const lostAdvice =
  'No repair can fix this: restore the newest snapshot into another directory, and keep this one as it is.'

/**
 * Finds the error that reports damaged data, among an error and its causes. It recognizes the text, because an error
 * from another thread keeps nothing else.
 */
export function damageIn(error: unknown): Error | undefined {
  return errorWith([repairableAdvice, lostAdvice], error)
}

/** Like `damageIn`, and finds a file that cannot be opened too; its data may be undamaged. */
export function unusableIn(error: unknown): Error | undefined {
  return errorWith([repairableAdvice, lostAdvice, unopenableAdvice], error)
}

function errorWith(advices: readonly string[], error: unknown): Error | undefined {
  for (let each = error; each instanceof Error; each = each.cause) {
    const { message } = each
    if (advices.some((advice) => message.endsWith(advice))) return each
  }
  return undefined
}
