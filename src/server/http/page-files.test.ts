import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { type FastifyInstance, fastify } from 'fastify'
import { addPageFiles } from './pages.ts'

describe('the files of a page', () => {
  const script = 'console.log("a script")'
  let directory: string
  let app: FastifyInstance
  before(() => {
    directory = mkdtempSync(join(tmpdir(), 'vicinal-page-files-'))
    const pages = join(directory, 'pages')
    mkdirSync(join(pages, 'assets'), { recursive: true })
    writeFileSync(join(directory, 'secret.html'), 'not a page')
    writeFileSync(join(pages, 'index.html'), 'the index')
    writeFileSync(join(pages, 'assets/a.js'), script)
    writeFileSync(join(pages, 'assets/a.js.br'), brotliCompressSync(script))
    writeFileSync(join(pages, 'assets/a.js.gz'), gzipSync(script))
    app = fastify()
    addPageFiles(app, pages, '/pages/', (path) => ({ 'x-path': path }))
  })
  after(async () => {
    await app.close()
    rmSync(directory, { recursive: true })
  })

  const get = (url: string, headers: Record<string, string> = {}) => app.inject({ url, headers })

  it('are served with their types and headers, and the index for the directory', async () => {
    for (const path of ['/pages/', '/pages/index.html', '/pages/index.html?x=1']) {
      const { statusCode, headers, body } = await get(path)
      assert.deepEqual([statusCode, body], [200, 'the index'], path)
      assert.equal(headers['content-type'], 'text/html; charset=utf-8')
      assert.equal(headers['x-path'], 'index.html')
    }
  })

  it('are compressed as the client asks', async () => {
    const cases = [
      ['gzip, deflate, br', 'br'],
      ['gzip;q=0.5', 'gzip'],
      ['br;q=0, GZIP', 'gzip'],
      ['identity', undefined],
      ['brotli', undefined],
    ] as const
    const tags = new Set<unknown>()
    for (const [accepted, encoding] of cases) {
      const { headers, rawPayload } = await get('/pages/assets/a.js', { 'accept-encoding': accepted })
      assert.equal(headers['content-encoding'], encoding, accepted)
      assert.equal(headers['content-type'], 'text/javascript; charset=utf-8')
      assert.equal(headers.vary, 'accept-encoding')
      const decode = { br: brotliDecompressSync, gzip: gunzipSync, none: (bytes: Buffer) => bytes }
      assert.equal(String(decode[encoding ?? 'none'](rawPayload)), script)
      tags.add(headers.etag)
    }
    assert.equal(tags.size, 3, 'each encoding has its tag')
  })

  it('are not sent again to a client that has them, unless their content has changed', async () => {
    const file = join(directory, 'pages/index.html')
    const etag = String((await get('/pages/')).headers.etag)
    for (const known of [etag, `"other", W/${etag}`]) {
      const { statusCode, body } = await get('/pages/', { 'if-none-match': known })
      assert.deepEqual([statusCode, body], [304, ''])
    }
    // A new version of the package: the same size and time.
    utimesSync(file, 1, 1)
    writeFileSync(file, 'THE INDEX')
    utimesSync(file, 1, 1)
    const { statusCode, body } = await get('/pages/', { 'if-none-match': etag })
    assert.deepEqual([statusCode, body], [200, 'THE INDEX'])
  })

  it('are only those of the directory', async () => {
    for (const path of [
      'nothing.js',
      'assets',
      'assets/',
      '/index.html',
      '../secret.html',
      '..%2fsecret.html',
      '%2e%2e/secret.html',
      'assets/..%2f..%2fsecret.html',
    ]) {
      const { statusCode } = await get(`/pages/${path}`)
      assert.equal(statusCode, 404, path)
    }
  })
})
