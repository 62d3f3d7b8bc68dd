import { createHash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { extname, join, relative, sep } from 'node:path'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

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
