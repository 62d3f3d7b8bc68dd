import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import swagger, { type StaticDocumentSpec } from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { parse } from 'yaml'

const openApiText = readFileSync(fileURLToPath(new URL('./openapi.yaml', import.meta.url)), 'utf8')
/** Parsed when a client asks for the JSON: parsing it at every start took a tenth of the start-up time. */
const openApiDocument = { toJSON: () => parse(openApiText) as object }

/**
 * The page loads nothing from other hosts and cannot be framed. With the default policy, browsers would also replace
 * http with https, and the page would stay empty on every host except localhost.
 */
const contentSecurityPolicy =
  "default-src 'self'; img-src 'self' data:; font-src 'self' data:; object-src 'none'; base-uri 'self'; frame-ancestors 'none'"

/** The console's icon. It is absent in a checkout whose console is not built. */
const iconPath = fileURLToPath(new URL('./generated/console/icon.svg', import.meta.url))

function icon(): object {
  if (!existsSync(iconPath)) return {}
  const content = readFileSync(iconPath)
  return { favicon: [{ filename: 'icon.svg', rel: 'icon', type: 'image/svg+xml', sizes: 'any', content }] }
}

/** Adds the OpenAPI description and a page that shows it. */
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
    theme: { title: 'Vicinal API', ...icon() },
    // Not the default layout, whose top bar has another project's logo and a field for the address of any description. It
    // also inserts a style sheet that the content security policy forbids.
    uiConfig: { validatorUrl: null, docExpansion: 'list', layout: 'BaseLayout' },
  })
}
