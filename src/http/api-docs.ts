import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import swagger, { type StaticDocumentSpec } from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { parse } from 'yaml'

const openApiText = readFileSync(fileURLToPath(new URL('./openapi.yaml', import.meta.url)), 'utf8')
/** Parsed when somebody asks for it as JSON: at every start, that took a tenth of the time. */
const openApiDocument = { toJSON: () => parse(openApiText) as object }

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
    specification: { document: openApiDocument as object as StaticDocumentSpec['document'] },
  })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: contentSecurityPolicy,
    theme: { title: 'Vicinal API' },
    uiConfig: { validatorUrl: null, docExpansion: 'list' },
  })
}
