import type { FastifyError, FastifyReply } from 'fastify'
import { DatabaseError, invalid, reasonHeader, reasons, toDatabaseError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'

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
