import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { plainText } from './errors.ts'

/** The built pages of `console/`; `npm run build:console` makes them. */
const assetsPath = fileURLToPath(new URL('./generated/console/', import.meta.url))

export const consolePath = '/console'

/** Whether a route belongs to the console. Its pages hold no data, so they need no key. */
export function isConsole(route: string): boolean {
  return route === consolePath || route.startsWith(`${consolePath}/`)
}

/**
 * Only files of this origin; no inline script, no eval, no frame, no form that posts. Images may also be in the
 * payload itself (`data:`) or made by the page (`blob:`).
 */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  "worker-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Serves the console. Its own requests use the same API, with the same keys, as any other client. */
export async function addConsole(app: FastifyInstance): Promise<void> {
  if (!existsSync(join(assetsPath, 'index.html'))) {
    const text = 'The console is not built. In a checkout, run: npm run build:console\n'
    app.get(consolePath, (_request, reply) => reply.code(404).type(plainText).send(text))
    return
  }
  // Relative, so that it also works behind a proxy that serves the API below a path of its own.
  app.get(consolePath, (_request, reply) => reply.redirect('console/', 308))
  await app.register(fastifyStatic, {
    root: assetsPath,
    prefix: `${consolePath}/`,
    decorateReply: false,
    preCompressed: true,
    cacheControl: false,
    setHeaders: addHeaders,
  })
}

function addHeaders(reply: FastifyReply, path: string): void {
  reply
    .header('content-security-policy', contentSecurityPolicy)
    .header('x-frame-options', 'DENY')
    .header('referrer-policy', 'no-referrer')
    .header('cross-origin-opener-policy', 'same-origin')
    // Names of assets contain their hash; the page that names them is asked for each time.
    .header('cache-control', isHashed(path) ? 'public, max-age=31536000, immutable' : 'no-cache')
}

function isHashed(path: string): boolean {
  return path.startsWith(join(assetsPath, 'assets'))
}
