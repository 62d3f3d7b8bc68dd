import { readdirSync } from 'node:fs'
import { readConfig } from '../../src/config.ts'
import { startService } from '../../src/main.ts'
import { apiKey } from '../support/service.ts'
import type { Sample } from './flatness.ts'

/** The service under soak, in a process of its own with --expose-gc: its parent asks what it holds. */
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
  SEARCH_THREADS: '2',
})
const service = await startService(config)
await service.ready

process.on('message', () => process.send!(sample()))
process.on('disconnect', () => void service.close().then(() => process.exit()))
const ports: SoakedPorts = { grpc: service.grpcAddress.port, http: service.httpAddress!.port }
process.send!(ports)

function sample(): ServerSample {
  // What finalizers let go of is collected by the second one.
  globalThis.gc!()
  globalThis.gc!()
  const { heapUsed, external, rss } = process.memoryUsage()
  return {
    heapBytes: heapUsed,
    externalBytes: external,
    rssBytes: rss,
    files: readdirSync('/proc/self/fd').length,
    resources: process.getActiveResourcesInfo().length,
  }
}
