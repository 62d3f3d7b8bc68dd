import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createServer, type Server, type TLSSocket } from 'node:tls'
import { createGrpcClient, type GrpcClientOptions, type VectorClient } from '../src/client/index.ts'
import { run, temporaryDirectory } from './support/process.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'

/** A TLS proxy in front of a service, with its own certificate. */
class TlsProxy implements AsyncDisposable {
  readonly address: string
  readonly caFile: string
  readonly ca: string
  readonly #server: Server
  readonly #sockets: Set<TLSSocket>
  readonly #remove: () => Promise<void>

  private constructor(server: Server, sockets: Set<TLSSocket>, caFile: string, remove: () => Promise<void>) {
    this.address = `localhost:${(server.address() as AddressInfo).port}`
    this.caFile = caFile
    this.ca = readFileSync(caFile, 'utf8')
    this.#server = server
    this.#sockets = sockets
    this.#remove = remove
  }

  static async start({ host, port }: { readonly host: string; readonly port: number }): Promise<TlsProxy> {
    const directory = await temporaryDirectory()
    const [keyFile, caFile] = ['key.pem', 'cert.pem'].map((name) => join(directory.path, name)) as [
      string,
      string,
    ]
    const subject = '-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1'
    const making = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 ${subject}`
    execFileSync('openssl', [...making.split(' '), '-keyout', keyFile, '-out', caFile], { stdio: 'pipe' })
    const options = { key: readFileSync(keyFile), cert: readFileSync(caFile), ALPNProtocols: ['h2'] }
    const sockets = new Set<TLSSocket>()
    const server = createServer(options, (socket) => {
      sockets.add(socket)
      const behind = connect(port, host)
      // Either end may fail first; then close the other.
      for (const [each, other] of [[socket, behind] as const, [behind, socket] as const]) {
        each.on('error', () => other.destroy()).pipe(other)
      }
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return new TlsProxy(server, sockets, caFile, async () => {
      await directory[Symbol.asyncDispose]()
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await this.#remove()
  }
}

const hasOpenssl = spawnSync('openssl', ['version']).status === 0

describe('a gRPC client behind TLS', { skip: !hasOpenssl && 'openssl not installed' }, () => {
  let service: TestService
  let proxy: TlsProxy
  before(async () => {
    service = await startTestService()
    proxy = await TlsProxy.start({ host: 'localhost', port: service.service.grpcAddress.port })
  })
  after(async () => {
    await proxy?.[Symbol.asyncDispose]()
    await service?.[Symbol.asyncDispose]()
  })

  async function withClient<Result>(
    options: Omit<GrpcClientOptions, 'address' | 'apiKey'>,
    use: (client: VectorClient) => Promise<Result>,
  ): Promise<Result> {
    const client = createGrpcClient({ address: proxy.address, apiKey, timeoutMs: 60_000, ...options })
    try {
      return await use(client)
    } finally {
      await client.close()
    }
  }

  const point = { vector: [1, 2], payload: { contentType: 'Text', content: 'over TLS' } } as const

  it('stores and finds points when it trusts the given certificate', async () => {
    await withClient({ tls: { ca: proxy.ca } }, async (client) => {
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
  })

  it('is used by the command line with --ca-file, or with --tls for the authorities of Node', async () => {
    const query = ['query', '--vector', '[1,2]', '--grpc', proxy.address, '--api-key', apiKey]
    assert.deepEqual((await run([...query, '--ca-file', proxy.caFile])).code, 0)
    const strange = await run([...query, '--tls'])
    assert.equal(strange.code, 1)
    assert.match(strange.stderr, /certificate/)
    const known = await run([...query, '--tls'], { NODE_EXTRA_CA_CERTS: proxy.caFile })
    assert.equal(known.code, 0, known.stderr)
    const missing = await run([...query, '--ca-file', `${proxy.caFile}.none`])
    assert.deepEqual(
      [missing.code, missing.stderr],
      [2, `vicinal: --ca-file: ${proxy.caFile}.none does not exist\n`],
    )
    const mixed = await run(['query', '--vector', '[1]', '--http', 'http://127.0.0.1:1', '--tls'])
    assert.equal(mixed.code, 2)
    assert.match(mixed.stderr, /--tls is for gRPC: over HTTP give an https:\/\/ address/)
  })
})
