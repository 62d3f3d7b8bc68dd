import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyError, FastifyReply } from 'fastify'
import { answerBytesMax, answerTooLarge } from '../../api/validation.ts'
import type { AnswerRoom } from '../../base/budgets.ts'
import { DatabaseError, invalid, reasonHeader, reasons, toDatabaseError } from '../../base/errors.ts'
import { type IdLists, idsPerStep, listSteps, type SpellableIds } from '../../base/id-lists.ts'
import { idLength } from '../../base/ids.ts'
import type { Logger } from '../../base/log.ts'
import { inTurns } from '../../base/turns.ts'

/**
 * Answers with ids as JSON, written directly into a buffer of the right size, in turns if there are many. Ids need no
 * escaping.
 */

export type JsonAnswer = string | Buffer

/** Encodes all ids as one list: `{"name":["…","…"]}`. @param room counts the answer */
export function encodeIds(
  name: string,
  ids: SpellableIds,
  room?: AnswerRoom,
): JsonAnswer | Promise<JsonAnswer> {
  const { total } = ids
  const bytes = `{"${name}":}`.length + listBytes(total)
  room?.add(bytes)
  const target = Buffer.allocUnsafe(bytes)
  const at = target.write(`{"${name}":[`)
  if (total > idsPerStep) return inTurns(stepsOfIds(target, at, ids))
  closeList(target, writeIds(target, at, ids, 0, total), closingBrace)
  // Node sends a string together with the head of the answer; a buffer would be sent separately.
  return target.toString('latin1')
}

/** Encodes lists of ids: `{"name":[["…","…"],["…"]]}`. @param room counts the answer */
export function encodeIdLists(
  name: string,
  ids: IdLists,
  room?: AnswerRoom,
): JsonAnswer | Promise<JsonAnswer> {
  return inTurns(stepsOfLists(name, ids, room))
}

function* stepsOfIds(target: Buffer, at: number, ids: SpellableIds): Generator<void, Buffer> {
  let position = at
  yield* listSteps([ids.total], {
    ids(first, end) {
      position = writeIds(target, position, ids, first, end)
    },
  })
  closeList(target, position, closingBrace)
  return target
}

function* stepsOfLists(name: string, ids: IdLists, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const bytes = listsBytes(name, ids)
  room?.add(bytes)
  const target = Buffer.allocUnsafe(bytes)
  let at = target.write(`{"${name}":[`)
  yield* listSteps(ids.ends, {
    begin() {
      target[at] = openingBracket
      at += 1
    },
    ids(first, end) {
      at = writeIds(target, at, ids, first, end)
    },
    end() {
      at = closeList(target, at, comma)
    },
  })
  closeList(target, at, closingBrace)
  return target
}

/** Writes each id in quotes, followed by a comma; `closeList` replaces the last comma. */
function writeIds(target: Buffer, at: number, ids: SpellableIds, first: number, end: number): number {
  let position = at
  for (let number = first; number < end; number += 1) {
    target[position] = quote
    ids.spell(number, target, position + 1)
    target[position + 1 + idLength] = quote
    target[position + 2 + idLength] = comma
    position += idLength + 3
  }
  return position
}

/** Writes a bracket over the last comma, if there is one, then the byte `next`; returns the position after it. */
function closeList(target: Buffer, at: number, next: number): number {
  const end = target[at - 1] === comma ? at - 1 : at
  target[end] = closingBracket
  target[end + 1] = next
  return end + 2
}

function listsBytes(name: string, ids: IdLists): number {
  const lists = ids.ends.reduce((sum, _, list) => sum + listBytes(ids.lengthOf(list)), 0)
  return `{"${name}":[]}`.length + lists + Math.max(0, ids.length - 1)
}

/** The size of a list: ids in quotes, commas between them, and two brackets. */
function listBytes(ids: number): number {
  return ids === 0 ? 2 : ids * (idLength + 3) + 1
}

const quote = '"'.charCodeAt(0)
const comma = ','.charCodeAt(0)
const openingBracket = '['.charCodeAt(0)
const closingBracket = ']'.charCodeAt(0)
const closingBrace = '}'.charCodeAt(0)

/** Builds an answer of unknown size from beginning to end. */
export class JsonText {
  readonly #parts: Buffer[] = []
  readonly #room: AnswerRoom | undefined
  #bytes = 0
  #text: string

  /** @param room counts the answer as it grows */
  constructor(beginning: string, room?: AnswerRoom) {
    this.#text = beginning
    this.#room = room
  }

  /**
   * Appends text; returns true after a long stretch, when other work should have a turn.
   *
   * @throws DatabaseError `invalid_argument` for an answer that has become too large, `overloaded`
   */
  add(text: string): boolean {
    this.#text += text
    if (this.#text.length < charactersPerPart) return false
    this.#flush()
    return true
  }

  /** Appends bytes that are already JSON. */
  addBytes(bytes: Buffer): void {
    this.#flush()
    this.#append(bytes)
  }

  finish(): Buffer {
    this.#flush()
    if (this.#parts.length === 1) return this.#parts[0]!
    this.#room?.add(this.#bytes)
    return Buffer.concat(this.#parts, this.#bytes)
  }

  #flush(): void {
    if (this.#text !== '') this.#append(Buffer.from(this.#text))
    this.#text = ''
  }

  #append(bytes: Buffer): void {
    this.#bytes += bytes.length
    if (this.#bytes > answerBytesMax) throw answerTooLarge()
    this.#room?.add(bytes.length)
    this.#parts.push(bytes)
  }
}

/** Writing this many characters takes well under a millisecond. */
const charactersPerPart = 65_536

/** An answer of any length. */
export interface StreamedAnswer {
  /** Read as fast as the client receives them. */
  readonly chunks: AsyncIterable<Buffer>
  /** Called when the answer has ended in any way. */
  readonly end: () => void
}

/**
 * Sends a stream; resolves when it is sent. Aborts it if the client disconnects, or leaves a chunk unread for longer than
 * `timeoutMs`.
 *
 * @throws DatabaseError the fault of the stream; `cancelled`, also if the server stops
 */
export async function sendStream(
  reply: FastifyReply,
  { chunks, end }: StreamedAnswer,
  timeoutMs: number,
): Promise<void> {
  const { raw } = reply
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let fault = new DatabaseError('cancelled', 'the caller disconnected')
  onClosed(raw, () => (raw.writableFinished ? resolve() : reject(fault)))
  const stream = Readable.from(
    watched(chunks, timeoutMs, () => raw.destroy()),
    { objectMode: false },
  )
  stream.once('error', (error) => {
    fault = toDatabaseError(error)
  })
  try {
    reply.send(stream)
    await promise
  } finally {
    end()
  }
}

/** Returns a signal that aborts when the client disconnects before the answer is complete. */
export function leavingOf({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController()
  onClosed(raw, () => {
    if (!raw.writableEnded) controller.abort(new DatabaseError('cancelled', 'the caller disconnected'))
  })
  return controller.signal
}

/** Passes chunks on; calls `giveUp` if one is not read in time. */
async function* watched(
  chunks: AsyncIterable<Buffer>,
  timeoutMs: number,
  giveUp: () => void,
): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    const timer = setTimeout(giveUp, timeoutMs)
    try {
      yield chunk
    } finally {
      clearTimeout(timer)
    }
  }
}

/**
 * Calls `listener` when a response has been sent or its connection has closed: at once if that has happened already,
 * because the event is not repeated. So `on` is enough: for the few listeners of each request, `once` takes a
 * microsecond more.
 */
export function onClosed(response: ServerResponse, listener: () => void): void {
  if (response.closed) listener()
  else response.on('close', listener)
}

export const plainText = 'text/plain; charset=utf-8'

export const otherType = 'the content type is not supported: send application/json'

/** Answers with the error's status and its message as plain text. */
export function sendError(reply: FastifyReply, error: DatabaseError): FastifyReply {
  const { status, headers } = headOf(error)
  return reply.code(status).headers(headers).send(error.message)
}

/** The status and the headers of an error's answer. */
export function headOf({ reason }: DatabaseError): {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
} {
  const { http } = reasons[reason]
  const retry = reason === 'overloaded' || http === 503 ? { 'retry-after': '1' } : {}
  return { status: http, headers: { 'content-type': plainText, [reasonHeader]: reason, ...retry } }
}

/** Converts the framework's errors to ours; unexpected ones become internal, and are logged. */
export function errorOfFramework(error: FastifyError | Error, logger: Logger): DatabaseError {
  if (error instanceof DatabaseError) return error
  const { code, statusCode = 500 } = error as FastifyError
  switch (code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new DatabaseError('unsupported_media_type', otherType)
    case 'FST_ERR_BAD_URL':
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return invalid('the path of the request is malformed or too long')
  }
  // The client's fault, so it is not logged.
  if (statusCode >= 400 && statusCode < 500) return invalid('the request could not be read')
  const internal = toDatabaseError(error)
  logger.error({ err: error }, internal.message)
  return internal
}
