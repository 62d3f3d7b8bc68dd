import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import { createGrpcClient, createHttpClient, type VectorClient } from '../../src/client/index.ts'
import { makeCertsDirectory } from './certificates.ts'
import { fetchOverHttp2 } from './http2-client.ts'
import { apiKey, startTestService, type TestService } from './service.ts'
import type { TestSettings } from './settings.ts'

/** A real service and a client of it. */
export interface Transport {
  readonly service: TestService
  readonly client: VectorClient
}

const clients: Readonly<Record<string, (service: TestService) => VectorClient>> = {
  gRPC: ({ grpcAddress }) => createGrpcClient({ address: grpcAddress, apiKey }),
  HTTP: ({ httpUrl }) => createHttpClient({ baseUrl: httpUrl }),
}

/** With VICINAL_TEST_HTTP2=1, the suites run over HTTP/2 and TLS in place of these. */
export const suitesRunOverHttp2: boolean = process.env.VICINAL_TEST_HTTP2 === '1'

/**
 * Runs one suite over each transport, each time with a new service.
 *
 * @param settings returns the service's settings by variable name; called before each service starts
 */
export function describeBoth(
  title: string,
  suite: (transport: Transport) => void,
  settings: () => TestSettings = () => ({}),
): void {
  if (suitesRunOverHttp2) {
    describeOverHttp2(title, suite, settings)
    return
  }
  for (const [name, connect] of Object.entries(clients)) describeOver(name, connect, title, suite, settings)
}

function describeOverHttp2(
  title: string,
  suite: (transport: Transport) => void,
  settings: () => TestSettings,
): void {
  const folder = mkdtempSync(join(tmpdir(), 'vicinal-http2-'))
  const { certs, ca } = makeCertsDirectory(folder)
  const fetch = fetchOverHttp2({ ca })
  const connect = ({ service }: TestService): VectorClient =>
    createHttpClient({ baseUrl: `https://localhost:${service.httpAddress!.port}`, fetch })
  describeOver('HTTP/2', connect, title, suite, () => ({ ...settings(), CERTS_DIR: certs }))
  after(() => {
    fetch[Symbol.dispose]()
    rmSync(folder, { recursive: true })
  })
}

function describeOver(
  name: string,
  connect: (service: TestService) => VectorClient,
  title: string,
  suite: (transport: Transport) => void,
  settings: () => TestSettings,
): void {
  describe(`${title}, over ${name}`, () => {
    let service: TestService
    let client: VectorClient
    before(async () => {
      service = await startTestService(settings())
      client = connect(service)
    })
    after(async () => {
      await client.close()
      await service[Symbol.asyncDispose]()
    })
    suite({
      get service() {
        return service
      },
      get client() {
        return client
      },
    })
  })
}
