import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type ConnectionOptions, connect } from 'node:tls'
import { createLogger } from '../src/base/log.ts'
import { createGrpcClient, type GrpcClientOptions, type VectorClient } from '../src/client/index.ts'
import { ServerCertificate } from '../src/server/certificate.ts'
import { type CertificateFiles, TestAuthority } from './support/certificates.ts'
import { run, temporaryDirectory } from './support/process.ts'
import { apiKey, startServedBy, startTestService, type TestService } from './support/service.ts'
import { until } from './support/until.ts'

const hasOpenssl = spawnSync('openssl', ['version']).status === 0

/** A directory for CERTS_DIR, with an authority beside it. */
class Certificates implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), 'vicinal-tls-'))
  readonly directory = join(this.#folder, 'certs')
  readonly authority = new TestAuthority(this.#folder)
  readonly caFile = this.authority.caFile
  readonly ca = readFileSync(this.caFile, 'utf8')

  constructor() {
    mkdirSync(join(this.directory, 'server'), { recursive: true })
    this.serve(this.sign(this.authority))
  }

  sign(authority: TestAuthority): CertificateFiles {
    return authority.sign('localhost', ',IP:127.0.0.1')
  }

  /** Puts a certificate where the service reads it. */
  serve({ certFile, keyFile }: Pick<CertificateFiles, 'certFile' | 'keyFile'>): void {
    copyFileSync(keyFile, join(this.directory, 'server', 'tls.key'))
    copyFileSync(certFile, join(this.directory, 'server', 'tls.crt'))
  }

  otherAuthority(name: string): TestAuthority {
    return new TestAuthority(this.#folder, name)
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true })
  }
}

/** The status of a request over HTTPS, and the name of who signed the server's certificate. */
async function get(
  { service }: TestService,
  options: ConnectionOptions,
  path = '/stats',
): Promise<{ readonly status: number | undefined; readonly issuer: string | undefined }> {
  const { port } = service.httpAddress!
  return await new Promise((resolve, reject) => {
    const asked = request({ host: 'localhost', port, path, agent: false, ...options }, (response) => {
      const { issuer } = (
        response.socket as unknown as { getPeerCertificate(): { issuer: { CN: string } } }
      ).getPeerCertificate()
      response.resume().on('end', () => resolve({ status: response.statusCode, issuer: issuer?.CN }))
    })
    asked.on('error', reject).end()
  })
}

describe('a service with a certificate', { skip: !hasOpenssl && 'openssl not installed' }, () => {
  let certificates: Certificates
  before(() => {
    certificates = new Certificates()
  })
  after(() => certificates[Symbol.dispose]())

  for (const threads of [0, 2]) {
    it(`speaks TLS on both ports, with ${threads} serving threads`, async () => {
      await using service = await startServedBy(threads, { CERTS_DIR: certificates.directory })
      const { ca } = certificates
      assert.equal((await get(service, { ca })).status, 200)
      await assert.rejects(get(service, {}), /unable to verify|self-signed/)
      await assert.rejects(fetch(`http://localhost:${service.service.httpAddress!.port}/health`))
      const { port } = service.service.grpcAddress
      const client = createGrpcClient({ address: `localhost:${port}`, apiKey, tls: { ca } })
      const id = await client.insert({ vector: [1, 2], payload: { contentType: 'Text', content: 'safe' } })
      assert.equal((await client.get(id)).payload.content, 'safe')
      await client.close()
    })
  }

  it('offers the protocol of each port only', async () => {
    await using service = await startTestService({ CERTS_DIR: certificates.directory })
    const { grpcAddress, httpAddress } = service.service
    const agreed = async (port: number, ALPNProtocols: string[]): Promise<unknown> => {
      const socket = connect({ host: 'localhost', port, ca: certificates.ca, ALPNProtocols })
      return await new Promise((resolve, reject) => {
        socket.on('secureConnect', () => resolve(socket.alpnProtocol)).on('error', reject)
      }).finally(() => socket.destroy())
    }
    assert.equal(await agreed(grpcAddress.port, ['h2', 'http/1.1']), 'h2')
    assert.equal(await agreed(httpAddress!.port, ['h2', 'http/1.1']), 'h2')
    assert.equal(await agreed(httpAddress!.port, ['http/1.1']), 'http/1.1')
    await assert.rejects(agreed(grpcAddress.port, ['http/1.1']), /no application protocol/)
  })

  it('uses a new certificate within a second or so', async () => {
    const other = certificates.otherAuthority('other')
    const agent = { ca: [certificates.ca, readFileSync(other.caFile, 'utf8')] }
    await using service = await startTestService({ CERTS_DIR: certificates.directory })
    assert.equal((await get(service, agent)).issuer, 'ca')
    certificates.serve(certificates.sign(other))
    await until(async () => (await get(service, agent)).issuer === 'other')
    certificates.serve(certificates.sign(certificates.authority))
    await until(async () => (await get(service, agent)).issuer === 'ca')
  })

  it('keeps its certificate while the new one is broken, and says so in the log', async () => {
    const lines: string[] = []
    const logger = createLogger({ level: 'info', pretty: false, write: (line) => lines.push(line) })
    const certificate = ServerCertificate.in(certificates.directory, logger)!
    const { cert } = certificate.optionsFor(['h2'])
    const crt = join(certificates.directory, 'server', 'tls.crt')
    writeFileSync(crt, 'not a certificate')
    await until(() => lines.some((line) => /cannot be used: the one before stays in force/.test(line)))
    assert.deepEqual(certificate.optionsFor(['h2']).cert, cert)
    writeFileSync(crt, cert as Buffer)
    await until(() => lines.some((line) => /has changed: new connections use it/.test(line)))
    certificate.close()
  })

  it('lets in only clients with a certificate of the given authorities', async () => {
    const clients = certificates.otherAuthority('clients')
    const { certFile, keyFile } = clients.sign('a-client')
    copyFileSync(clients.caFile, join(certificates.directory, 'server', 'clients.crt'))
    await using service = await startTestService({ CERTS_DIR: certificates.directory })
    const { ca } = certificates
    const own = { ca, cert: readFileSync(certFile), key: readFileSync(keyFile) }
    assert.equal((await get(service, own)).status, 200)
    await assert.rejects(get(service, { ca }))
    const stranger = certificates.sign(certificates.authority)
    const foreign = { ca, cert: readFileSync(stranger.certFile), key: readFileSync(stranger.keyFile) }
    await assert.rejects(get(service, foreign))
    const { grpcAddress, httpAddress } = service.service
    const address = `localhost:${grpcAddress.port}`
    const query = { vector: [1], metric: 'Cosine', limit: 1 } as const
    const client = createGrpcClient({ address, apiKey, tls: own, retries: 0 })
    assert.deepEqual(await client.search(query), [])
    await client.close()
    for (const tls of [{ ca }, foreign]) {
      const refused = createGrpcClient({ address, apiKey, tls, retries: 0, timeoutMs: 60_000 })
      await assert.rejects(refused.search(query), { reason: 'not_ready' })
      await refused.close()
    }
    assert.throws(() => createGrpcClient({ address, apiKey, tls: { ca, cert: own.cert } }), /need each other/)
    const asked = ['query', '--vector', '[1]', '--api-key', apiKey, '--ca-file', certificates.caFile]
    const certificate = ['--cert-file', certFile, '--key-file', keyFile]
    const url = `https://localhost:${httpAddress!.port}`
    for (const to of [
      ['--grpc', address],
      ['--http', url],
    ]) {
      const { code, stderr } = await run([...asked, ...to, ...certificate])
      assert.equal(code, 0, stderr)
      assert.notEqual((await run([...asked, ...to])).code, 0)
      assert.equal((await run([...asked, ...to, '--cert-file', certFile])).code, 2)
    }
    const snapshot = join(certificates.directory, 'default.snapshot')
    const copied = await run([
      'snapshot',
      'create',
      snapshot,
      '--http',
      url,
      '--ca-file',
      certificates.caFile,
      ...certificate,
    ])
    assert.equal(copied.code, 0, copied.stderr)
    rmSync(join(certificates.directory, 'server', 'clients.crt'))
  })

  it('does not start with files that cannot be used, and names them', async () => {
    const crt = join(certificates.directory, 'server', 'tls.crt')
    const kept = readFileSync(crt)
    writeFileSync(crt, 'not a certificate')
    await assert.rejects(
      startTestService({ CERTS_DIR: certificates.directory }),
      /tls\.crt, tls\.key in .*server \(CERTS_DIR\) cannot be used/,
    )
    rmSync(crt)
    await assert.rejects(
      startTestService({ CERTS_DIR: certificates.directory }),
      /tls\.crt \(CERTS_DIR\) cannot be read/,
    )
    writeFileSync(crt, kept)
    await assert.rejects(
      startTestService({ CERTS_DIR: join(certificates.directory, 'server') }),
      /CERTS_DIR: ".*server" has neither a directory server, with tls\.crt and tls\.key, nor a directory nats/,
    )
  })
})

describe('a gRPC client over TLS', { skip: !hasOpenssl && 'openssl not installed' }, () => {
  let certificates: Certificates
  let service: TestService
  let address: string
  before(async () => {
    certificates = new Certificates()
    service = await startTestService({ CERTS_DIR: certificates.directory })
    address = `localhost:${service.service.grpcAddress.port}`
  })
  after(async () => {
    await service?.[Symbol.asyncDispose]()
    certificates[Symbol.dispose]()
  })

  async function withClient<Result>(
    options: Omit<GrpcClientOptions, 'address' | 'apiKey'>,
    use: (client: VectorClient) => Promise<Result>,
  ): Promise<Result> {
    const client = createGrpcClient({ address, apiKey, timeoutMs: 60_000, ...options })
    try {
      return await use(client)
    } finally {
      await client.close()
    }
  }

  const point = { vector: [1, 2], payload: { contentType: 'Text', content: 'over TLS' } } as const

  it('stores and finds points when it trusts the given certificate', async () => {
    await withClient({ tls: { ca: certificates.ca } }, async (client) => {
      const id = await client.insert(point)
      assert.equal((await client.get(id)).payload.content, 'over TLS')
      const query = { vector: [1, 2], metric: 'Euclidean', limit: 1 } as const
      assert.deepEqual(await client.search(query), [id])
    })
  })

  it('does not trust a certificate signed by an authority that Node does not know', async () => {
    await withClient({ tls: true }, (client) =>
      assert.rejects(client.insert(point), {
        reason: 'not_ready',
        message: /certificate of localhost:\d+ is not trusted.*--ca-file/,
      }),
    )
  })

  it('gets no answer when it speaks plaintext', async () => {
    await withClient({ timeoutMs: 10_000 }, (client) => assert.rejects(client.insert(point)))
    const plain = service.httpUrl.replace(/^https/, 'http')
    const { stderr } = await run(['stats', '--http', plain])
    assert.match(
      stderr,
      /^vicinal: the connection to http:.* without an answer; if the service speaks TLS, .* https:/,
    )
    const counted = await run(['count', '--grpc', address, '--api-key', apiKey])
    assert.match(
      counted.stderr,
      /^vicinal: the connection to localhost:\d+ .* without an answer; if the service speaks TLS, .*--tls/,
    )
  })

  it('is used by the command line with --ca-file, or with --tls for the authorities of Node', async () => {
    const query = ['query', '--vector', '[1,2]', '--grpc', address, '--api-key', apiKey]
    assert.deepEqual((await run([...query, '--ca-file', certificates.caFile])).code, 0)
    const strange = await run([...query, '--tls'])
    assert.equal(strange.code, 1)
    assert.match(strange.stderr, /certificate/)
    const known = await run([...query, '--tls'], { NODE_EXTRA_CA_CERTS: certificates.caFile })
    assert.equal(known.code, 0, known.stderr)
    const missing = await run([...query, '--ca-file', `${certificates.caFile}.none`])
    assert.deepEqual(
      [missing.code, missing.stderr],
      [2, `vicinal: --ca-file: ${certificates.caFile}.none does not exist\n`],
    )
    const mixed = await run(['query', '--vector', '[1]', '--http', 'http://127.0.0.1:1', '--tls'])
    assert.equal(mixed.code, 2)
    assert.match(mixed.stderr, /--tls is for gRPC: over HTTP give an https:\/\/ address/)
  })
})

describe('vicinal tls self-signed', () => {
  it('makes a certificate with which the service speaks TLS, and that clients can trust', async () => {
    await using folder = await temporaryDirectory()
    const directory = join(folder.path, 'certs')
    const made = await run([
      'tls',
      'self-signed',
      directory,
      '--name',
      'localhost',
      '127.0.0.1',
      'fe80::1.2.3.4',
    ])
    assert.equal(made.code, 0, made.stderr)
    const crt = join(directory, 'server', 'tls.crt')
    const certificate = new X509Certificate(readFileSync(crt))
    assert.equal(
      certificate.subjectAltName,
      'DNS:localhost, IP Address:127.0.0.1, IP Address:FE80:0:0:0:0:0:102:304',
    )
    assert.ok(certificate.verify(certificate.publicKey))
    assert.equal(statSync(join(directory, 'server', 'tls.key')).mode & 0o777, 0o600)
    await using service = await startTestService({ CERTS_DIR: directory })
    const { grpcAddress, httpAddress } = service.service
    assert.equal((await get(service, { ca: readFileSync(crt) })).status, 200)
    const asked = ['query', '--vector', '[1]', '--api-key', apiKey, '--ca-file', crt]
    for (const address of [
      ['--grpc', `127.0.0.1:${grpcAddress.port}`],
      ['--http', `https://localhost:${httpAddress!.port}`],
    ]) {
      const { code, stderr } = await run([...asked, ...address])
      assert.equal(code, 0, stderr)
    }
  })

  it('keeps a certificate that is there, and refuses what is no name', async () => {
    await using folder = await temporaryDirectory()
    const make = async (...more: string[]): Promise<number> =>
      (await run(['tls', 'self-signed', folder.path, ...more])).code!
    assert.equal(await make('--name', 'not a name'), 2)
    assert.equal(await make(), 0)
    const path = join(folder.path, 'server', 'tls.crt')
    const first = readFileSync(path, 'utf8')
    assert.equal(await make(), 2)
    assert.equal(readFileSync(path, 'utf8'), first)
    const key = join(folder.path, 'server', 'tls.key')
    chmodSync(key, 0o644)
    assert.equal(await make('--force', '--days', '2'), 0)
    assert.equal(statSync(key).mode & 0o777, 0o600)
    const { validToDate } = new X509Certificate(readFileSync(path))
    assert.ok(validToDate.getTime() - Date.now() < 3 * 86_400_000)
  })
})
