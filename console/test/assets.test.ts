import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { startTestService, type TestService } from '../../test/support/service.ts'

/** The limit for everything that the first page and the overview load. */
const firstLoadBytes = 150 * 1024

describe('the files of the console', () => {
  let service: TestService

  before(async () => {
    service = await startTestService({ HTTP_API_KEY: 'a-key' })
  })

  after(async () => {
    await service[Symbol.asyncDispose]()
  })

  const get = (path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
    fetch(new URL(path, `${service.httpUrl}/console/`), { headers, redirect: 'manual' })

  it('need no key, and nothing else is accessible without one', async () => {
    assert.equal((await get('./')).status, 200)
    assert.equal((await get('../console')).headers.get('location'), 'console/')
    assert.equal((await get('../metrics')).status, 401)
    assert.equal((await get('../consoles')).status, 401)
  })

  it('are served under a policy that allows no inline script, no eval and no other host', async () => {
    const policy = (await get('./')).headers.get('content-security-policy')!
    assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/)
    assert.doesNotMatch(policy, /unsafe|https?:|\*/)
    const page = await (await get('./')).text()
    assert.doesNotMatch(page, /<script(?![^>]*\ssrc=)|\son\w+=|style=|https?:\/\//)
  })

  it('are immutable in caches if their names contain a hash, and are revalidated otherwise', async () => {
    const first = await get('./')
    assert.equal(first.headers.get('cache-control'), 'no-cache')
    const again = await get('./', {
      'if-none-match': first.headers.get('etag')!,
      // As browsers send it. Node's fetch would send no-cache.
      'cache-control': 'max-age=0',
    })
    assert.equal(again.status, 304)
    for (const path of addressesIn(await first.text())) {
      const { headers } = await get(path)
      const isHashed = path.startsWith('./assets/')
      assert.equal(
        headers.get('cache-control'),
        isHashed ? 'public, max-age=31536000, immutable' : 'no-cache',
        path,
      )
      assert.equal(headers.get('x-content-type-options'), 'nosniff')
    }
  })

  it('do not allow access outside their directory', async () => {
    for (const path of ['..%2f..%2f..%2fpackage.json', 'assets/..%2f..%2f..%2fserver.ts', 'nothing.js']) {
      const { status, headers } = await get(path)
      assert.ok(status === 404 || status === 403, `${path}: ${status}`)
      assert.match(headers.get('content-type')!, /^text\/plain/)
    }
  })

  it('are smaller than 150 KiB compressed, for the first page with the overview', async () => {
    const first = addressesIn(await (await get('./')).text())
    const entry = await (await get(first.find((path) => path.endsWith('.js'))!)).text()
    const overview = [...entry.matchAll(/overview-[\w-]+\.(?:js|css)/g)].map(([name]) => `./assets/${name}`)
    assert.ok(overview.length > 0)
    const loaded = new Set([...first, ...overview])
    // Iteration over a Set includes items that are added meanwhile.
    for (const path of loaded) {
      if (!path.endsWith('.js')) continue
      const imports = (await (await get(path)).text()).matchAll(
        /(?:from|import)\s*["']\.\/([\w.-]+\.js)["']/g,
      )
      for (const [, name] of imports) loaded.add(`./assets/${name}`)
    }
    let bytes = 0
    for (const path of loaded) bytes += (await compressed(path)).length
    assert.ok(bytes < firstLoadBytes, `${bytes} bytes`)
  })

  /** The compressed bytes of a file. Node's fetch would decompress the file itself, so this reads its `.gz`. */
  async function compressed(path: string): Promise<Buffer> {
    const response = await get(`${path}.gz`)
    const bytes = Buffer.from(await response.arrayBuffer())
    const plain = Buffer.from(await (await get(path, { 'accept-encoding': 'gzip' })).arrayBuffer())
    assert.ok(gunzipSync(bytes).equals(plain))
    return bytes
  }
})

function addressesIn(page: string): readonly string[] {
  return [...page.matchAll(/(?:src|href)="(\.\/[^"]+)"/g)].map(([, path]) => path!)
}
