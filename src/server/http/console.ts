import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance } from 'fastify'
import { plainText } from './errors.ts'
import { addPageFiles } from './page-files.ts'

/** The built pages of `console/`, made by `npm run build:console`. */
const assetsPath = fileURLToPath(new URL('./generated/console/', import.meta.url))

export const consolePath = '/console'

/** Whether a route belongs to the console. Its pages hold no data, so they need no key. */
export function isConsole(route: string): boolean {
  return route === consolePath || route.startsWith(`${consolePath}/`)
}

export interface ConsoleOptions {
  /** Origins of images, in addition to the service and the payloads themselves. */
  readonly imageOrigins: readonly string[]
  /** The port in the gRPC queries that the console shows. */
  readonly grpcPort: number
}

/**
 * Allows only files of this origin; no inline scripts, no eval, no frames, no form submission. Images may also be in
 * the payload itself (`data:`), be made by the page (`blob:`), or come from the origins that the operator allows.
 */
function contentSecurityPolicy(imageOrigins: readonly string[]): string {
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
  const policy = contentSecurityPolicy(imageOrigins)
  addPageFiles(app, assetsPath, `${consolePath}/`, (path) => ({
    'content-security-policy': policy,
    'x-frame-options': 'DENY',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    // Names of assets contain their hash; the page that refers to them is revalidated each time.
    'cache-control': path.startsWith('assets/') ? 'public, max-age=31536000, immutable' : 'no-cache',
  }))
}
