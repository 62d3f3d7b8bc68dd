import { after, before, describe } from 'node:test'
import { createGrpcClient, createHttpClient, type VectorClient } from '../../src/client/index.ts'
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
  for (const [name, connect] of Object.entries(clients)) {
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
}
