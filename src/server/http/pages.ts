import type { FastifyInstance } from 'fastify'
import { DatabaseError } from '../../base/errors.ts'
import { writesBlockedTexts } from '../../base/writes-blocked.ts'
import { plainText } from './errors.ts'
import type { HttpServerOptions } from './server-options.ts'

/** Adds the start page, health, readiness and metrics. */
export function addPages(
  app: FastifyInstance,
  { metrics, isReady, writesBlocked, rebuilding, cluster, context }: HttpServerOptions,
): void {
  app.get('/health', (_request, reply) => reply.type(plainText).send('OK'))
  app.get('/', (_request, reply) =>
    reply
      .type(plainText)
      .send(
        'The Vicinal vector database server is running. The console is at /console, the description of the API at /docs.\n',
      ),
  )
  app.get('/readyz', (_request, reply) => {
    const notReady = cluster?.notReady()
    if (!isReady() && notReady === undefined) {
      throw new DatabaseError('not_ready', 'the stored points are still loading')
    }
    if (notReady !== undefined) throw new DatabaseError('not_ready', notReady)
    // Still 200: a service that is taken out of rotation could not answer searches either.
    const blocked = writesBlocked()
    const { damaged, collections } = context.collections.totals
    const notes = [
      ...(blocked === undefined ? [] : [writesBlockedTexts[blocked]]),
      ...(rebuilding() === 0
        ? []
        : [`graphs are being rebuilt (${rebuilding()}): searches are exact until then`]),
      ...(damaged === 0
        ? []
        : [`${damaged} of ${collections} collections cannot be opened: the log names them`]),
    ]
    return reply.type(plainText).send(notes.length === 0 ? 'ready' : `ready, but ${notes.join('; ')}`)
  })
  app.get('/metrics', { config: { role: 'read' } }, async (_request, reply) => {
    const { contentType, text } = await metrics.expose()
    return reply.type(contentType).send(text)
  })
}
