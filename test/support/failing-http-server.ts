import type { RunningServer } from '../../src/api/call.ts'
import type { ServerCertificate } from '../../src/server/certificate.ts'
import { startHttpServer } from '../../src/server/http/server.ts'
import { failingTransport } from './failing-transport.ts'

/** The real HTTP server over a database that fails every request, as during loading or after a fault. */
export function startFailingHttpServer(
  error: Error,
  certificate?: ServerCertificate,
): Promise<RunningServer> {
  return startHttpServer({
    ...failingTransport(error),
    host: '127.0.0.1',
    keys: undefined,
    certificate,
    corsOrigins: [],
    console: { imageOrigins: [], grpcPort: 0 },
    readiness() {
      throw error
    },
  })
}
