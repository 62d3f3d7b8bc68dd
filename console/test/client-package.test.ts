import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, normalize } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { temporaryDirectory } from '../../test/support/process.ts'
import { startTestService, type TestService } from '../../test/support/service.ts'
import { httpKey, launchChromium, missingChromium } from './browser.ts'

const root = join(import.meta.dirname, '../..')

/** A page loads the built client without a bundler, from a different origin than the service. */
describe('the TypeScript client in a browser', { skip: missingChromium }, () => {
  let built: AsyncDisposable & { readonly path: string }
  let site: Server
  let origin: string
  let browser: Browser

  before(async () => {
    built = await temporaryDirectory()
    await promisify(execFile)(process.execPath, [join(root, 'clients/typescript/build.ts'), built.path])
    site = await serveFiles(built.path)
    origin = `http://localhost:${(site.address() as AddressInfo).port}`
    browser = await launchChromium()
  })
  after(async () => {
    await browser?.close()
    site?.closeAllConnections()
    site?.close()
    await built?.[Symbol.asyncDispose]()
  })

  it('inserts, searches, lists, changes and deletes if the service allows its origin', async () => {
    await using service = await startTestService({ CORS_ORIGINS: origin, HTTP_API_KEY: httpKey })
    const page = await open(service)
    const seen = await page.evaluate(async ({ baseUrl, apiKey }) => {
      const { createHttpClient, GeoPoint } = await load()
      const client = createHttpClient({ baseUrl, apiKey })
      const payload = {
        contentType: 'Text',
        content: 'a café',
        attributes: { at: new GeoPoint(47.4, 8.5) },
      } as const
      const id = await client.insert({ vector: [1, 0], payload })
      await client.insertBatch([{ vector: [0, 1], payload: { contentType: 'Text', content: 'a bar' } }])
      const query = { vector: [1, 0.1], metric: 'Cosine', limit: 2, include: { payload: true } } as const
      const { hits } = await client.searchHits(query)
      await client.patch(id, { set: { open: true } })
      const listed = []
      for await (const point of client.listAll({ include: { payload: true } }))
        listed.push(point.payload?.content)
      await client.delete(id)
      const error = await client.get(id).catch((caught: unknown) => caught)
      return {
        found: hits.map(({ payload }) => payload?.content),
        listed,
        left: await client.count(),
        reason: (error as { reason: string }).reason,
      }
    }, connectionOf(service))
    const both = ['a café', 'a bar']
    assert.deepEqual(seen, { found: both, listed: both, left: 1, reason: 'not_found' })
  })

  it('reads the error of a wrong key', async () => {
    await using service = await startTestService({ CORS_ORIGINS: origin, HTTP_API_KEY: httpKey })
    assert.equal(
      await reasonIn(await open(service), { ...connectionOf(service), apiKey: 'wrong' }),
      'unauthenticated',
    )
  })

  it('cannot reach the service if its origin is not allowed', async () => {
    await using service = await startTestService({ CORS_ORIGINS: 'https://app.example.org' })
    assert.equal(await reasonIn(await open(service), connectionOf(service)), 'not_ready')
    await service.restart({ CORS_ORIGINS: '' })
    assert.equal(await reasonIn(await open(service), connectionOf(service)), 'not_ready')
    await service.restart({ CORS_ORIGINS: origin })
    assert.equal(await reasonIn(await open(service), connectionOf(service)), undefined)
  })

  /** Opens an empty page of the site, which defines `load`. */
  async function open(service: TestService): Promise<Page> {
    assert.notEqual(new URL(service.httpUrl).host, new URL(origin).host)
    const page = await browser.newPage()
    await page.goto(`${origin}/`)
    return page
  }

  /** Why a count fails; undefined if it succeeds. */
  function reasonIn(page: Page, connection: Connection): Promise<string | undefined> {
    return page.evaluate(async ({ baseUrl, apiKey }) => {
      const { createHttpClient } = await load()
      const client = createHttpClient({ baseUrl, apiKey, retries: 0 })
      return await client.count().then(
        () => undefined,
        (error: { reason: string }) => error.reason,
      )
    }, connection)
  }
})

/** Loads the main module of the package. The page defines this function. */
declare function load(): Promise<typeof import('../../src/client/http.ts')>

interface Connection {
  readonly baseUrl: string
  readonly apiKey: string
}

function connectionOf({ httpUrl }: TestService): Connection {
  return { baseUrl: httpUrl, apiKey: httpKey }
}

async function serveFiles(directory: string): Promise<Server> {
  const page = '<!doctype html><script type="module">window.load = () => import("/client/http.js")</script>'
  const server = createServer(async ({ url = '/' }, response) => {
    if (url === '/') return response.setHeader('content-type', 'text/html').end(page)
    const file = await readFile(join(directory, normalize(url))).catch(() => undefined)
    if (file === undefined) return response.writeHead(404).end()
    return response.setHeader('content-type', 'text/javascript').end(file)
  })
  server.listen(0, 'localhost')
  await once(server, 'listening')
  return server
}
