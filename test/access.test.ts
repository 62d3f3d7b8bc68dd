import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import crypto from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it, mock } from 'node:test'
import { type ApiKey, hashOfKey, Keyring } from '../src/base/api-key.ts'
import { createGrpcClient } from '../src/client/grpc-client.ts'
import { createHttpClient } from '../src/client/http-client.ts'
import { readConfig } from '../src/config.ts'
import { compileCache, temporaryDirectory } from './support/process.ts'
import { vicinal } from './support/programs.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'

describe('key comparison', () => {
  const only: ApiKey = { name: 'only', hash: hashOfKey(apiKey), role: 'write' }
  const keyring = new Keyring([only])
  const isKey = (presented: string | undefined): boolean => keyring.find(presented) === only

  it('accepts only the key, bare or as a bearer token', () => {
    for (const right of [apiKey, `Bearer ${apiKey}`, `bearer   ${apiKey}`])
      assert.equal(isKey(right), true, right)
    const wrong = [
      '',
      'x',
      apiKey.slice(1),
      apiKey.slice(0, -1),
      `${apiKey} `,
      ` ${apiKey}`,
      apiKey.toUpperCase(),
      hashOfKey(apiKey),
      '0'.repeat(64),
    ]
    for (const each of [...wrong, `Basic ${apiKey}`, `Bearer${apiKey}`, undefined])
      assert.equal(isKey(each), false, each)
  })

  it('does the same work for any input: one comparison of hashes', () => {
    const compare = mock.method(crypto, 'timingSafeEqual')
    syncBuiltinESMExports()
    try {
      for (const presented of ['', apiKey[0], apiKey.slice(0, -1), apiKey, `Bearer ${apiKey}`]) {
        compare.mock.resetCalls()
        isKey(presented)
        const lengths = compare.mock.calls.flatMap((call) =>
          call.arguments.map(({ byteLength }) => byteLength),
        )
        assert.deepEqual(lengths, [64, 64])
      }
    } finally {
      compare.mock.restore()
      syncBuiltinESMExports()
    }
  })

  it('accepts a key until it expires', () => {
    const ending: ApiKey = { ...only, expiresAtMs: Date.now() + 60_000 }
    assert.equal(new Keyring([ending]).find(apiKey), ending)
    assert.equal(new Keyring([{ ...only, expiresAtMs: Date.now() }]).find(apiKey), undefined)
  })
})

describe('several keys', () => {
  const keys: readonly ApiKey[] = [
    { name: 'first', hash: hashOfKey('the-first-key'), role: 'write' },
    { name: 'second', hash: hashOfKey('a-second-key-that-is-longer'), role: 'read' },
    { name: 'again', hash: hashOfKey('the-first-key'), role: 'read' },
  ]

  it('are identified by name (the first of two equal ones wins), and their calls are counted', () => {
    const keyring = new Keyring(keys)
    assert.equal(keyring.find('the-first-key'), keys[0])
    assert.equal(keyring.find('Bearer a-second-key-that-is-longer'), keys[1])
    assert.equal(keyring.find('a-second-key-that-is-longer'), keys[1])
    for (const wrong of ['the-first-key-', 'the-first-ke', '', undefined])
      assert.equal(keyring.find(wrong), undefined)
    keyring.replace(keys.slice(1, 2))
    assert.equal(keyring.find('the-first-key'), undefined)
    assert.deepEqual(keyring.calls, [['second', 2]])
  })
})

describe('the keys of a running service', () => {
  it('are not in its arguments, which every user of the machine can read', {
    skip: process.platform !== 'linux' && 'needs /proc',
  }, async () => {
    await using directory = await temporaryDirectory()
    const keys = {
      GRPC_ROOT_PASSWORD: 'grpc-key-in-the-environment',
      HTTP_API_KEY: 'http-key-in-the-environment',
    }
    await using server = await ServiceWithoutUmask.start(directory.path, keys)
    for (const file of ['cmdline', 'comm']) {
      const text = readFileSync(`/proc/${server.pid}/${file}`, 'latin1')
      assert.doesNotMatch(text, /key-in-the-environment/)
    }
  })
})

describe('the files of a service', () => {
  it('are accessible only to their owner, even under a permissive umask', {
    skip: process.platform === 'win32' && 'has no modes',
  }, async () => {
    await using parent = await temporaryDirectory()
    const dataDir = join(parent.path, 'data')
    await using server = await ServiceWithoutUmask.start(dataDir)
    const http = createHttpClient({ baseUrl: server.httpUrl })
    await http.insert({ vector: [1, 2], payload: { contentType: 'Text', content: 'secret' } })
    await server.end()

    const open: string[] = []
    const found = ['', ...(await readdir(dataDir, { recursive: true }))]
    for (const name of found) {
      const { mode } = await stat(join(dataDir, name))
      if ((mode & 0o077) !== 0) open.push(`${name} ${(mode & 0o777).toString(8)}`)
    }
    assert.deepEqual(open, [])
    assert.ok(found.includes('api-key') && found.length > 3, found.join(' '))
  })
})

describe('a service with its defaults', () => {
  it('listens only on loopback', async () => {
    assert.deepEqual([readConfig({}).httpHost, readConfig({}).grpcHost], ['127.0.0.1', 'localhost'])
    await using service = await startTestService()
    const outside = Object.values(networkInterfaces())
      .flatMap((each) => each ?? [])
      .filter(({ internal, family }) => !internal && family === 'IPv4')
    for (const { address } of outside) {
      const { port } = service.service.httpAddress!
      await assert.rejects(fetch(`http://${address}:${port}/health`), `HTTP answers on ${address}`)
      const grpc = createGrpcClient({ address: `${address}:${service.service.grpcAddress.port}`, apiKey })
      await assert.rejects(grpc.search({ vector: [1], metric: 'Cosine', limit: 1 }), { reason: 'not_ready' })
      await grpc.close()
    }
  })
})

describe('a browser', () => {
  let service: TestService
  before(async () => {
    service = await startTestService()
  })
  after(() => service[Symbol.asyncDispose]())

  it('gets nosniff in every response, and DENY for frames and no-referrer on every docs page', async () => {
    const pages = [
      '/docs',
      '/docs/',
      '/docs/openapi.yaml',
      '/docs/json',
      '/docs/static/index.css',
      '/docs/nothing',
    ]
    for (const path of ['/', '/health', '/metrics', '/points/nonsense', '/nowhere', ...pages]) {
      const { headers } = await fetch(service.httpUrl + path, { redirect: 'manual' })
      assert.equal(headers.get('x-content-type-options'), 'nosniff', path)
      assert.equal(headers.get('x-powered-by') ?? headers.get('server'), null, path)
      if (!path.startsWith('/docs')) continue
      assert.equal(headers.get('x-frame-options'), 'DENY', path)
      assert.equal(headers.get('referrer-policy'), 'no-referrer', path)
    }
    const policy = (await fetch(`${service.httpUrl}/docs`)).headers.get('content-security-policy')!
    for (const rule of ["default-src 'self'", "object-src 'none'", "frame-ancestors 'none'"]) {
      assert.ok(policy.includes(rule), policy)
    }
  })

  it('blocks pages of other origins: no CORS headers, and requests without a preflight are refused', async () => {
    const origin = { origin: 'https://elsewhere.example' }
    for (const [method, path] of [
      ['OPTIONS', '/points'],
      ['GET', '/health'],
      ['POST', '/points/search'],
    ] as const) {
      const asking = { ...origin, 'access-control-request-method': 'POST' }
      const { headers } = await fetch(service.httpUrl + path, { method, headers: asking })
      assert.deepEqual(
        [...headers.keys()].filter((name) => name.startsWith('access-control')),
        [],
      )
    }
    const body = JSON.stringify({ vector: [1], payload: { content_type: 'Text', content: '' } })
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
    ]) {
      for (const [headers, status] of [
        [origin, 403],
        [{}, 415],
      ] as const) {
        const response = await fetch(`${service.httpUrl}/points`, {
          method: 'POST',
          headers: { ...headers, 'content-type': type },
          body,
        })
        assert.equal(response.status, status, type)
      }
    }
  })
})

describe('a page whose host name an attacker has pointed at this machine', () => {
  const rebound = { host: 'attacker.example:3000', origin: 'http://attacker.example:3000' }
  const paths = [
    ['GET', '/metrics'],
    ['GET', '/points/00000000-0000-4000-8000-000000000000'],
    ['POST', '/points/search'],
    ['POST', '/snapshot'],
    ['DELETE', '/points/00000000-0000-4000-8000-000000000000'],
  ] as const

  it('reads only the health of an open service on loopback', async () => {
    await using service = await startTestService()
    for (const [method, path] of paths) {
      const { status, type, text } = await ask(service, method, path, rebound)
      assert.deepEqual([status, type], [421, 'text/plain; charset=utf-8'], path)
      assert.match(text, /CORS_ORIGINS/)
    }
    assert.equal((await ask(service, 'GET', '/health', rebound)).text, 'OK')
    for (const host of ['localhost', 'localhost:3000', '127.0.0.1', '[::1]:3000'])
      assert.equal((await ask(service, 'GET', '/metrics', { host })).status, 200, host)
  })

  it('gets 401 if the service has a key, and is served if its name is allowed', async () => {
    await using keyed = await startTestService({ HTTP_API_KEY: apiKey })
    assert.equal((await ask(keyed, 'GET', '/metrics', rebound)).status, 401)
    const authorization = apiKey
    assert.equal((await ask(keyed, 'GET', '/metrics', { ...rebound, authorization })).status, 200)
    await using named = await startTestService({
      CORS_ORIGINS: 'https://db.example.org,http://attacker.example',
    })
    assert.equal((await ask(named, 'GET', '/metrics', rebound)).status, 200)
  })
})

/** Uses `http.request`, because `fetch` sets the host header itself. */
async function ask(
  { httpUrl }: TestService,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<{ readonly status: number; readonly type: string | undefined; readonly text: string }> {
  const sent = httpRequest(httpUrl + path, { method, headers }).end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const text = (await response.setEncoding('utf8').toArray()).join('')
  return { status: response.statusCode!, type: response.headers['content-type'], text }
}

/** A service started with umask 000: its files are open to everybody unless it sets their mode. */
class ServiceWithoutUmask implements AsyncDisposable {
  readonly pid: number
  readonly httpUrl: string
  readonly end: () => Promise<void>

  private constructor(pid: number, httpUrl: string, end: () => Promise<void>) {
    this.pid = pid
    this.httpUrl = httpUrl
    this.end = end
  }

  static async start(
    dataDir: string,
    settings: Readonly<Record<string, string>> = {},
  ): Promise<ServiceWithoutUmask> {
    const child = spawn('sh', ['-c', 'umask 000; exec "$0" "$@"', process.execPath, vicinal, 'serve'], {
      env: {
        ...compileCache,
        DATA_DIR: dataDir,
        GRPC_PORT: '0',
        HTTP_PORT: '0',
        THREADS: '1',
        ...settings,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = once(child, 'exit')
    let log = ''
    child.stdout.setEncoding('utf8')
    for await (const text of child.stdout.iterator({ destroyOnReturn: false })) {
      log += text
      if (/"msg":"ready"/.test(log)) break
    }
    child.stdout.resume()
    return new ServiceWithoutUmask(child.pid!, /"url":"([^"]+)"/.exec(log)![1]!, async () => {
      child.kill('SIGTERM')
      await ended
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end()
  }
}
