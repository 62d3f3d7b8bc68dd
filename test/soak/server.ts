import { readdirSync } from 'node:fs'
import { collectGarbage } from '../../src/base/runtime.ts'
import { readConfig } from '../../src/config.ts'
import { startService } from '../../src/main.ts'
import { apiKey } from '../support/service.ts'
import type { Sample } from './flatness.ts'

/** The service under test, as a child process. Its parent requests samples of its resources. */
export type ServerSample = Omit<Sample, 'requests'>

export interface SoakedPorts {
  readonly grpc: number
  readonly http: number
}

const config = readConfig({
  DATA_DIR: process.argv[2],
  GRPC_PORT: '0',
  HTTP_PORT: '0',
  GRPC_ROOT_PASSWORD: apiKey,
  LOG_LEVEL: 'silent',
  THREADS: '2',
})
const service = await startService(config)
await service.ready

process.on('message', () => process.send!(sample()))
process.on('disconnect', () => void service.close().then(() => process.exit()))
const ports: SoakedPorts = { grpc: service.grpcAddress.port, http: service.httpAddress!.port }
process.send!(ports)

function sample(): ServerSample {
  // The second run collects memory that finalizers have released.
  collectGarbage()
  collectGarbage()
  const { heapUsed, external, rss } = process.memoryUsage()
  return {
    heapBytes: heapUsed,
    externalBytes: external,
    rssBytes: rss,
    files: readdirSync('/proc/self/fd').length,
    resources: process.getActiveResourcesInfo().length,
  }
}
