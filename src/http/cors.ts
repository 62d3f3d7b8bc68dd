import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import { consistencyHeader, positionHeader } from '../base/consistency.ts'
import { partialHeader } from '../base/partial-reads.ts'

/**
 * Lets pages of other origins call the service from a browser. Without origins nothing is added to any answer, and
 * browsers refuse such calls: before they send a body or a key, they ask the service, which does not allow it.
 *
 * It is registered before the check of keys, because browsers ask without one.
 */
export async function allowOrigins(app: FastifyInstance, origins: readonly string[]): Promise<void> {
  if (origins.length === 0) return
  await app.register(cors, {
    origin: [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    allowedHeaders: [
      ...['content-type', 'authorization', 'idempotency-key', 'if-match'],
      ...[consistencyHeader, positionHeader, partialHeader],
    ],
    exposedHeaders: [
      ...['vicinal-ignored-fields', 'vicinal-sequence', 'vicinal-points', 'retry-after', 'allow'],
      ...[positionHeader, partialHeader],
    ],
    maxAge: maxAgeSeconds,
  })
}

/** How long a browser need not ask again. Chromium takes no more than two hours, Safari ten minutes. */
const maxAgeSeconds = 600
