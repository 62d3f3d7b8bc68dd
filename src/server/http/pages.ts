import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { extname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ConsoleOptions, HttpServerOptions } from '../listener.ts'
import { plainText } from './answers.ts'

/** Pages for people and probes: start, health, readiness, metrics, the description of the API, and the console. */

/** Adds the start page, health, readiness and metrics. */
export function addPages(app: FastifyInstance, { metrics, readiness }: HttpServerOptions): void {
  app.get('/health', (_request, reply) => reply.type(plainText).send('OK'))
  app.get('/', (_request, reply) =>
    reply
      .type(plainText)
      .send(
        'The Vicinal vector database server is running. The console is at /console, the description of the API at /docs.\n',
      ),
  )
  app.get('/readyz', async (_request, reply) => {
    // Still 200: a service that is taken out of rotation could not answer searches either.
    const notes = await readiness()
    return reply.type(plainText).send(notes.length === 0 ? 'ready' : `ready, but ${notes.join('; ')}`)
  })
  app.get('/metrics', { config: { role: 'read' } }, async (_request, reply) => {
    const { contentType, text } = await metrics.expose()
    return reply.type(contentType).send(text)
  })
}

const openApiText = readFileSync(fileURLToPath(new URL('./openapi.yaml', import.meta.url)), 'utf8')

/** Swagger UI and the description as JSON, put there by scripts/build-docs-page.ts. */
const filesPath = fileURLToPath(new URL('./generated/docs/', import.meta.url))

/**
 * The page loads nothing from other hosts and cannot be framed. The policy does not let browsers replace http with
 * https, which would leave the page empty on every host except localhost.
 */
const docsPolicy =
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
  const headers = { 'content-security-policy': docsPolicy }
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

/** The built pages of `console/`, made by `npm run build:console`. */
const assetsPath = fileURLToPath(new URL('./generated/console/', import.meta.url))

export const consolePath = '/console'

/** Whether a route belongs to the console. Its pages hold no data, so they need no key. */
export function isConsole(route: string): boolean {
  return route === consolePath || route.startsWith(`${consolePath}/`)
}

/**
 * Allows only files of this origin; no inline scripts, no eval, no frames, no form submission. Images may also be in
 * the payload itself (`data:`), be made by the page (`blob:`), or come from the origins that the operator allows.
 */
function consolePolicy(imageOrigins: readonly string[]): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    ["img-src 'self' data: blob:", ...imageOrigins].join(' '),
    "connect-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

/**
 * Serves the console. Its requests use the same API and the same keys as any other client.
 *
 * @param isCluster whether this is a node of a cluster. The pages read it here, because a request of /cluster that finds
 * none would be an error in the browser's log.
 */
export function addConsole(app: FastifyInstance, options: ConsoleOptions, isCluster: boolean): void {
  if (!existsSync(join(assetsPath, 'index.html'))) {
    const text = 'The console is not built. In a checkout, run: npm run build:console\n'
    app.get(consolePath, (_request, reply) => reply.code(404).type(plainText).send(text))
    return
  }
  // Relative, so that it also works behind a proxy that serves the API below another path.
  app.get(consolePath, (_request, reply) => reply.redirect('console/', 308))
  const { imageOrigins, grpcPort } = options
  // What the pages need to know of the service. Not secret, so no key is needed: the policy has the origins, a scan
  // finds the port, and a node of a cluster answers at /cluster.
  app.get(`${consolePath}/config.json`, (_request, reply) =>
    reply
      .header('cache-control', 'no-cache')
      .send({ image_origins: imageOrigins, grpc_port: grpcPort, cluster: isCluster }),
  )
  const policy = consolePolicy(imageOrigins)
  addPageFiles(app, assetsPath, `${consolePath}/`, (path) => ({
    'content-security-policy': policy,
    'x-frame-options': 'DENY',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    // Names of assets contain their hash; the page that refers to them is revalidated each time.
    'cache-control': path.startsWith('assets/') ? 'public, max-age=31536000, immutable' : 'no-cache',
  }))
}

/** The types of the files that pages load. */
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** In the order of preference. */
const encodings = [
  { name: 'br', suffix: '.br' },
  { name: 'gzip', suffix: '.gz' },
]

/**
 * Serves the files that a directory has now, below `prefix`, which ends with a slash and is itself index.html. A request
 * is looked up in the list of these files, so that no path leads out of the directory. The build has stored compressed
 * copies.
 *
 * @param headersOf the headers of a file, by its path in the directory
 */
export function addPageFiles(
  app: FastifyInstance,
  directory: string,
  prefix: string,
  headersOf: (path: string) => Readonly<Record<string, string>>,
): void {
  const paths = new Set(filesIn(directory))
  app.get(`${prefix}*`, async (request, reply) => {
    const path = (request.params as { '*': string })['*'] || 'index.html'
    if (!paths.has(path)) return reply.callNotFound()
    const copies = encodings.filter(({ suffix }) => paths.has(path + suffix))
    const encoding = copies.find(({ name }) => accepts(request, name))
    const content = await readFile(join(directory, path + (encoding?.suffix ?? '')))
    reply.headers(headersOf(path)).type(types[extname(path)] ?? 'application/octet-stream')
    if (copies.length > 0) reply.header('vary', 'accept-encoding')
    if (encoding !== undefined) reply.header('content-encoding', encoding.name)
    return sendTagged(request, reply, content)
  })
}

/** The paths of all files in a directory, with slashes. */
function filesIn(directory: string): string[] {
  if (!existsSync(directory)) return []
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)).replaceAll(sep, '/'))
}

function accepts({ headers }: FastifyRequest, encoding: string): boolean {
  const accepted = String(headers['accept-encoding'] ?? '').split(',')
  return accepted.some((each) => {
    const [name, ...parameters] = each.toLowerCase().split(';')
    return name!.trim() === encoding && !parameters.some((text) => /^\s*q=0(\.0*)?\s*$/.test(text))
  })
}

/**
 * The tag is a digest, not the size and time of the file: npm gives the files of every version the same time, and a page
 * that only names other assets has the same size.
 */
function sendTagged({ headers }: FastifyRequest, reply: FastifyReply, content: Buffer): FastifyReply {
  const tag = `"${createHash('sha256').update(content).digest('base64url')}"`
  reply.header('etag', tag)
  const known = (headers['if-none-match'] ?? '').split(',').map((each) => each.trim().replace(/^W\//, ''))
  return known.includes(tag) ? reply.code(304).send() : reply.send(content)
}
