import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js'
import { VectorDB } from '../../src/messages/generated/vectordb_pb.js'
import { freePort } from '../support/free-ports.ts'
import { run, temporaryDirectory } from '../support/process.ts'
import { apiKey, startTestService, type TestService } from '../support/service.ts'

const example = join(import.meta.dirname, '../../docs/examples/nginx.conf')

const missing = ['nginx', 'openssl'].filter((program) => spawnSync(program, ['-v']).error !== undefined)

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** nginx with the example configuration, only ports and paths changed, in front of a real service. */
class Proxied implements AsyncDisposable {
  readonly #service: TestService
  readonly #directory: AsyncDisposable & { readonly path: string }
  readonly #nginx: ChildProcess
  readonly #certificate: Buffer
  readonly httpsPort: number
  readonly grpcsPort: number

  get path(): string {
    return this.#directory.path
  }

  private constructor(
    service: TestService,
    directory: AsyncDisposable & { readonly path: string },
    nginx: ChildProcess,
    certificate: Buffer,
    ports: readonly [https: number, grpcs: number],
  ) {
    this.#service = service
    this.#directory = directory
    this.#nginx = nginx
    this.#certificate = certificate
    this.httpsPort = ports[0]
    this.grpcsPort = ports[1]
  }

  static async start(): Promise<Proxied> {
    const service = await startTestService()
    const directory = await temporaryDirectory()
    const ports = [await freePort(), await freePort()] as const
    makeSecrets(directory.path)
    await writeFile(join(directory.path, 'nginx.conf'), wrapped(directory.path))
    await writeFile(join(directory.path, 'vicinal.conf'), await changed(service, directory.path, ports))
    const nginx = spawn('nginx', ['-p', directory.path, '-c', 'nginx.conf', '-e', 'stderr'], {
      stdio: 'inherit',
    })
    const certificate = await readFile(join(directory.path, 'cert.pem'))
    const proxied = new Proxied(service, directory, nginx, certificate, ports)
    await proxied.#answers().catch(async (error: unknown) => {
      await proxied[Symbol.asyncDispose]()
      throw error
    })
    return proxied
  }

  https(path: string, options: { method?: string; user?: string; body?: string } = {}): Promise<Answer> {
    const { method = 'GET', user, body } = options
    return answerTo(
      httpsRequest({
        host: 'localhost',
        port: this.httpsPort,
        path,
        method,
        ca: this.#certificate,
        ...(user === undefined ? {} : { auth: user }),
        ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' } }),
      }),
      body,
    )
  }

  grpc(key: string | undefined, isTrusting = true): SecureGrpc {
    return new SecureGrpc(`localhost:${this.grpcsPort}`, key, isTrusting ? this.#certificate : null)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#nginx.exitCode === null) {
      const ended = once(this.#nginx, 'exit')
      this.#nginx.kill('SIGTERM')
      await ended
    }
    await this.#service[Symbol.asyncDispose]()
    await this.#directory[Symbol.asyncDispose]()
  }

  async #answers(): Promise<void> {
    const giveUpMs = performance.now() + 120_000
    while (performance.now() < giveUpMs) {
      assert.equal(this.#nginx.exitCode, null, 'nginx has ended')
      const answer = await this.https('/health').catch(() => undefined)
      if (answer?.status === 200) return
      await delay(50)
    }
    assert.fail('nginx does not answer')
  }
}

/** The enclosing configuration: only the paths where nginx keeps its files. */
function wrapped(directory: string): string {
  const isRoot = process.getuid?.() === 0
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return `
${isRoot ? 'user root;' : ''}
daemon off;
worker_processes 1;
pid ${directory}/nginx.pid;
events {}
http {
  access_log off;
  ${kinds.map((kind) => `${kind}_temp_path ${directory}/${kind};`).join('\n  ')}
  include ${directory}/vicinal.conf;
}
`
}

async function changed(
  service: TestService,
  directory: string,
  [httpsPort, grpcsPort]: readonly [number, number],
): Promise<string> {
  const changes: readonly (readonly [string, string])[] = [
    ['127.0.0.1:3000', service.httpUrl.slice('http://'.length)],
    ['127.0.0.1:50051', `127.0.0.1:${service.service.grpcAddress.port}`],
    ['listen 443 ', `listen 127.0.0.1:${httpsPort} `],
    ['listen 50052 ', `listen 127.0.0.1:${grpcsPort} `],
    ['    listen [::]:443 ssl;\n', ''],
    ['    listen [::]:50052 ssl;\n', ''],
    ...(hasHttp2Directive() ? [] : olderNginx),
    ['/etc/nginx/vicinal/', `${directory}/`],
  ]
  let text = await readFile(example, 'utf8')
  for (const [from, to] of changes) {
    assert.ok(text.includes(from), `the example has ${from}`)
    text = text.replaceAll(from, to)
  }
  return text
}

/** The changes that the example describes for nginx before 1.25.1. */
const olderNginx: readonly (readonly [string, string])[] = [
  ['    http2 on;\n', ''],
  [' ssl;\n', ' ssl http2;\n'],
]

function hasHttp2Directive(): boolean {
  const { stderr } = spawnSync('nginx', ['-v'], { encoding: 'utf8' })
  const [major, minor, patch] = /(\d+)\.(\d+)\.(\d+)/.exec(stderr)!.slice(1).map(Number)
  return major! > 1 || minor! > 25 || (minor === 25 && patch! >= 1)
}

/** Runs the commands of the README. */
function makeSecrets(directory: string): void {
  const openssl = (args: string): string =>
    execFileSync('openssl', args.split(' '), { encoding: 'utf8', stdio: 'pipe' })
  openssl(
    `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout ${directory}/key.pem -out ${directory}/cert.pem`,
  )
  execFileSync('sh', ['-c', `echo "alice:$(openssl passwd -6 secret)" > ${directory}/users`])
}

async function answerTo(sent: ReturnType<typeof httpRequest>, body: string | undefined): Promise<Answer> {
  sent.end(body)
  const [response] = await once(sent, 'response')
  const text = (await response.setEncoding('utf8').toArray()).join('')
  return { status: response.statusCode, headers: response.headers, text }
}

class SecureGrpc implements Disposable {
  readonly #client: Client
  readonly #metadata = new Metadata()

  constructor(address: string, key: string | undefined, certificate: Buffer | null) {
    this.#client = new Client(address, credentials.createSsl(certificate))
    if (key !== undefined) this.#metadata.set('authorization', key)
  }

  insert(vectors: readonly (readonly number[])[]): Promise<number> {
    const { input, output } = VectorDB.method.insertVectorsBatch
    const request = create(input, {
      vectors: vectors.map((values) => ({
        vector: { values: [...values] },
        payload: { contentType: 1, content: 'x'.repeat(100) },
      })),
    })
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        '/vectordb.VectorDB/InsertVectorsBatch',
        (bytes: Uint8Array) => Buffer.from(bytes),
        (bytes: Buffer) => fromBinary(output, bytes).ids.length,
        toBinary(input, request),
        this.#metadata,
        (error: ServiceError | null, count?: number) => (error === null ? resolve(count!) : reject(error)),
      )
    })
  }

  [Symbol.dispose](): void {
    this.#client.close()
  }
}

describe('the nginx example', {
  skip: missing.length > 0 && `${missing.join(' and ')} not installed`,
}, () => {
  const alice = 'alice:secret'
  const points = (count: number): string =>
    JSON.stringify({
      vectors: Array.from({ length: count }, (_, index) => ({
        vector: [index, 1],
        payload: { content_type: 'Text', content: 'x'.repeat(1000) },
      })),
    })
  let proxied: Proxied

  before(async () => {
    proxied = await Proxied.start()
  })
  after(() => proxied[Symbol.asyncDispose]())

  it('requires user and password for everything except /health', async () => {
    for (const user of [undefined, 'alice:wrong', 'mallory:secret']) {
      for (const path of ['/', '/docs/openapi.yaml', '/points/search', '/metrics', '/snapshots']) {
        const { status, headers } = await proxied.https(path, user === undefined ? {} : { user })
        assert.equal(status, 401, path)
        assert.match(headers['www-authenticate']!, /^Basic/)
      }
    }
    assert.deepEqual((await proxied.https('/health')).text, 'OK')
  })

  it('is accepted by nginx without a warning', () => {
    const { stderr, status } = spawnSync(
      'nginx',
      ['-t', '-p', proxied.path, '-c', 'nginx.conf', '-e', 'stderr'],
      { encoding: 'utf8' },
    )
    assert.equal(status, 0, stderr)
    assert.doesNotMatch(stderr, /\[(warn|error|emerg)\]/)
  })

  it('works with every command, over either port', async () => {
    const { path, httpsPort, grpcsPort } = proxied
    const file = (name: string, text: string): string => {
      writeFileSync(join(path, name), text)
      return join(path, name)
    }
    const ca = ['--ca-file', join(path, 'cert.pem')]
    const byPassword = ['--user', 'alice', '--password-file', file('password', 'secret\n')]
    const https = ['--http', `https://localhost:${httpsPort}`, ...ca]
    const grpc = ['--grpc', `localhost:${grpcsPort}`, ...ca, '--api-key-file', file('key', apiKey)]
    const points = file('points.jsonl', '{"vector":[9,8],"content":"from a file"}\n')
    const done = async (args: readonly string[], environment = {}): Promise<string> => {
      const { code, stdout, stderr } = await run(args, environment)
      assert.equal(code, 0, `${args.join(' ')}: ${stderr}`)
      return stdout
    }
    for (const connection of [[...https, ...byPassword], grpc]) {
      const idsFile = join(path, `ids-${connection.length}`)
      await done(['import', points, '--ids', idsFile, '--journal', `${idsFile}.journal`, ...connection])
      const id = readFileSync(idsFile, 'utf8').trim()
      assert.match(await done(['query', '--vector', '[9,8]', ...connection]), /from a file/)
      assert.match(await done(['get', id, ...connection]), /"vector":\[9,8\]/)
      await done(['delete', id, ...connection])
    }
    const environment = { VICINAL_USER: 'alice', VICINAL_PASSWORD: 'secret' }
    assert.match(await done(['stats', ...https], environment), /^state +ready$/m)
    assert.match(await done(['export', ...https], environment), /^(\{"id".*\}\n)*$/)
    mkdirSync(join(path, 'backups'))
    await done(['snapshot', 'create', join(path, 'backups'), ...https, ...byPassword])
    assert.equal(readdirSync(join(path, 'backups')).length, 1)
  })

  it('is distinguished from an unreachable service, and errors say what to do', async () => {
    const { path, httpsPort } = proxied
    const https = `https://localhost:${httpsPort}`
    const place = join(path, 'untrusted.snapshot')
    const cases: readonly (readonly [readonly string[], Readonly<Record<string, string>>, RegExp])[] = [
      [['snapshot', 'create', place, '--http', https], {}, /certificate of \S+ is not trusted: .*--ca-file/],
      [['stats', '--http', https], {}, /certificate of \S+ is not trusted: .*--ca-file/],
      [['query', '--vector', '[1,2]', '--http', https], {}, /certificate of \S+ is not trusted: .*--ca-file/],
      [
        ['stats', '--http', `https://127.0.0.2:${httpsPort}`, '--ca-file', join(path, 'cert.pem')],
        {},
        /no answer from|is for other names/,
      ],
      [
        ['query', '--vector', '[1,2]', '--http', https, '--ca-file', join(path, 'cert.pem')],
        {},
        /proxy in front of the service answered: 401 .*--user, --password-file\)$/m,
      ],
      [
        ['stats', '--http', https, '--ca-file', join(path, 'cert.pem')],
        { VICINAL_USER: 'alice', VICINAL_PASSWORD: 'wrong' },
        /answered 401: the proxy .*--user/,
      ],
      [['stats', '--http', https, '--user', 'alice'], {}, /no password for user alice: give --password-file/],
      [['stats', '--http', 'https://a:b@localhost'], {}, /not in the address/],
      [['stats', '--http', https, '--ca-file', join(path, 'password')], {}, /has no certificate in PEM/],
      [
        ['stats', '--http', https, '--user', 'alice', '--api-key', 'k'],
        { VICINAL_PASSWORD: 'secret' },
        /--user and --api-key exclude each other/,
      ],
    ]
    for (const [args, environment, message] of cases) {
      const { code, stderr } = await run(args, environment)
      assert.notEqual(code, 0)
      assert.match(stderr, message)
    }
  })

  it('serves the whole HTTP interface over TLS, including batches above the default limit of nginx', async () => {
    const inserted = await proxied.https('/points/batch', { method: 'POST', user: alice, body: points(3000) })
    assert.equal(inserted.status, 201)
    const [id] = JSON.parse(inserted.text).point_ids
    const body = JSON.stringify({ vector: [0, 1], similarity: 'Euclidean', limit: 1 })
    const found = await proxied.https('/points/search', { method: 'POST', user: alice, body })
    assert.deepEqual(JSON.parse(found.text), { results: [id] })
    assert.deepEqual(JSON.parse((await proxied.https(`/points/${id}`, { user: alice })).text).vector, [0, 1])
    assert.equal((await proxied.https(`/points/${id}`, { method: 'DELETE', user: alice })).status, 204)
    const gone = await proxied.https(`/points/${id}`, { user: alice })
    assert.deepEqual([gone.status, gone.text], [404, 'Point not found'])
    assert.match(gone.headers['strict-transport-security']!, /max-age/)
  })

  it('refuses plaintext', async () => {
    const sent = httpRequest({ host: '127.0.0.1', port: proxied.httpsPort, path: '/health' })
    assert.equal((await answerTo(sent, undefined)).status, 400)
  })

  it('serves gRPC over TLS to clients with the key, including large batches', async () => {
    using grpc = proxied.grpc(apiKey)
    const vectors = Array.from({ length: 20_000 }, (_, index) => [index, 2])
    assert.equal(await grpc.insert(vectors.slice(0, 1)), 1)
    assert.equal(await grpc.insert(vectors), 20_000)
  })

  it('lets the service refuse calls without the key', async () => {
    for (const key of [undefined, 'not-the-key']) {
      using grpc = proxied.grpc(key)
      await assert.rejects(grpc.insert([[1, 1]]), { code: status.UNAUTHENTICATED })
    }
  })

  it('is not trusted by clients without its certificate', async () => {
    using grpc = proxied.grpc(apiKey, false)
    await assert.rejects(grpc.insert([[1, 1]]), { code: status.UNAVAILABLE })
  })
})
