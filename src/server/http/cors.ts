import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import { consistencyHeader, positionHeader } from '../../base/consistency.ts'
import { reasonHeader } from '../../base/errors.ts'
import { strictHeader } from './ignored-fields.ts'

/**
 * Allows pages of other origins to call the service from a browser. Without origins, no answer has CORS headers, and
 * browsers refuse such calls: before they send a body or a key, they send a preflight request, which fails.
 *
 * Registered before the check of keys, because preflight requests have no key.
 */
export async function allowOrigins(app: FastifyInstance, origins: readonly string[]): Promise<void> {
  if (origins.length === 0) return
  await app.register(cors, {
    origin: [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    allowedHeaders: [
      ...['content-type', 'authorization', 'idempotency-key', 'if-match', strictHeader],
      ...[consistencyHeader, positionHeader],
    ],
    exposedHeaders: [
      ...['vicinal-ignored-fields', 'vicinal-sequence', 'vicinal-points', 'retry-after', 'allow'],
      ...[positionHeader, reasonHeader],
    ],
    maxAge: maxAgeSeconds,
  })
}

/** How long a browser caches a preflight answer. Chromium caps it at two hours, Safari at ten minutes. */
const maxAgeSeconds = 600
