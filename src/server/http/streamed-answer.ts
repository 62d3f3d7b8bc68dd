import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { DatabaseError, toDatabaseError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { onClosed } from './on-closed.ts'

export interface StreamedAnswer {
  /** Read as fast as the client receives them. */
  readonly chunks: AsyncIterable<Buffer>
  /** How long a client may leave a sent chunk unread. */
  readonly requestTimeoutMs: number
  readonly logger: Logger
  /** What the answer is, for the log. */
  readonly what: string
  /** Called once, with the outcome, when the answer has ended in any way. */
  readonly ended: (outcome: string) => void
}

/** Sends an answer of any length; aborts it if the client disconnects or stops reading. */
export function streamAnswer(
  reply: FastifyReply,
  { chunks, requestTimeoutMs, logger, what, ended }: StreamedAnswer,
): FastifyReply {
  let fault: DatabaseError | undefined
  const { raw } = reply
  // Called whether the client, an error or a stop of the server ends the answer.
  const end = (): void => {
    if (fault?.reason === 'internal') logger.error({ err: fault.cause ?? fault }, `${what} failed`)
    ended(raw.writableFinished ? 'ok' : (fault?.reason ?? 'cancelled'))
  }
  onClosed(raw, end)
  const stream = Readable.from(
    watched(chunks, requestTimeoutMs, () => raw.destroy()),
    { objectMode: false },
  )
  stream.once('error', (error) => {
    fault = toDatabaseError(error)
  })
  return reply.send(stream)
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
