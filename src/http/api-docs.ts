import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'

const openApiPath = fileURLToPath(new URL('./openapi.yaml', import.meta.url))
const openApiText = readFileSync(openApiPath, 'utf8')

/**
 * The page loads nothing from other hosts and cannot be framed. The default policy would also make browsers replace
 * http by https, so that the page would stay empty on every host but localhost.
 */
const contentSecurityPolicy =
  "default-src 'self'; img-src 'self' data:; font-src 'self' data:; object-src 'none'; base-uri 'self'; frame-ancestors 'none'"

/** Adds the description of the API, and a page that shows it. */
export async function addDocs(app: FastifyInstance): Promise<void> {
  app.get('/docs/openapi.yaml', (_request, reply) =>
    reply.type('application/yaml; charset=utf-8').send(openApiText),
  )
  app.addHook('onSend', async (request, reply) => {
    reply.header('x-content-type-options', 'nosniff')
    if (request.url.startsWith('/docs')) {
      reply.header('x-frame-options', 'DENY').header('referrer-policy', 'no-referrer')
    }
  })
  await app.register(swagger, {
    mode: 'static',
    specification: { path: openApiPath, baseDir: dirname(openApiPath) },
  })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: contentSecurityPolicy,
    theme: { title: 'Vicinal API' },
    uiConfig: { validatorUrl: null, docExpansion: 'list' },
  })
}
