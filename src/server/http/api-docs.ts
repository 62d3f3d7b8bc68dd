import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance } from 'fastify'
import { addPageFiles } from './page-files.ts'

const openApiText = readFileSync(fileURLToPath(new URL('./openapi.yaml', import.meta.url)), 'utf8')

/** Swagger UI and the description as JSON, put there by scripts/build-docs-page.ts. */
const filesPath = fileURLToPath(new URL('./generated/docs/', import.meta.url))

/**
 * The page loads nothing from other hosts and cannot be framed. The policy does not let browsers replace http with
 * https, which would leave the page empty on every host except localhost.
 */
const contentSecurityPolicy =
  "default-src 'self'; img-src 'self' data:; font-src 'self' data:; object-src 'none'; base-uri 'self'; frame-ancestors 'none'"

/** @param files the address of the files: relative where it can be, for a proxy that serves the page below another path */
const pageWith = (files: string): string => `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Vicinal API</title>
<link rel="stylesheet" href="${files}/swagger-ui.css">
<link rel="stylesheet" href="${files}/index.css">
<link rel="icon" type="image/svg+xml" href="${files}/theme/icon.svg" sizes="any">
</head>
<body>
<div id="swagger-ui"></div>
<script src="${files}/swagger-ui-bundle.js"></script>
<script src="${files}/swagger-initializer.js"></script>
</body>
</html>
`

/**
 * The description is found relative to the page. Not the usual layout of Swagger UI: its top bar has another project's
 * logo and a field for the address of any description, and it inserts a style sheet that the policy forbids.
 */
const initializer = `function resolveUrl(path) {
  const page = location.origin + location.pathname
  return new URL(path, page.endsWith('/') ? page : page + '/').href
}
window.onload = () => {
  SwaggerUIBundle({
    dom_id: '#swagger-ui',
    url: resolveUrl('./json'),
    deepLinking: true,
    validatorUrl: null,
    docExpansion: 'list',
    presets: [SwaggerUIBundle.presets.apis],
    layout: 'BaseLayout',
  })
}
`

/** Adds the OpenAPI description and a page that shows it. */
export function addDocs(app: FastifyInstance): void {
  app.addHook('onSend', async (request, reply) => {
    reply.header('x-content-type-options', 'nosniff')
    if (request.url.startsWith('/docs')) {
      reply.header('x-frame-options', 'DENY').header('referrer-policy', 'no-referrer')
    }
  })
  const headers = { 'content-security-policy': contentSecurityPolicy }
  app.get('/docs/openapi.yaml', (_request, reply) =>
    reply.type('application/yaml; charset=utf-8').send(openApiText),
  )
  app.get('/docs/json', async (_request, reply) =>
    reply
      .headers(headers)
      .type('application/json; charset=utf-8')
      .send(await readFile(join(filesPath, 'openapi.json'))),
  )
  for (const [path, files] of [
    ['/docs', '/docs/static'],
    ['/docs/', './static'],
  ] as const) {
    const page = pageWith(files)
    app.get(path, (_request, reply) => reply.headers(headers).type('text/html; charset=utf-8').send(page))
  }
  app.get('/docs/static/swagger-initializer.js', (_request, reply) =>
    reply.headers(headers).type('text/javascript; charset=utf-8').send(initializer),
  )
  addPageFiles(app, join(filesPath, 'static'), '/docs/static/', () => headers)
}
