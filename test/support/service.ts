import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLogger } from '../../src/base/log.ts'
import { type Config, readConfig } from '../../src/config.ts'
import { type Service, startService } from '../../src/main.ts'

/** The key of every service under test. */
export const apiKey = 'a-key-for-tests'

/** A real service in this process, on free ports, over a real store in a temporary directory. */
export interface TestService extends AsyncDisposable {
  readonly config: Config
  readonly service: Service
  readonly dataDir: string
  readonly httpUrl: string
  readonly grpcAddress: string
  /** Stops the service and starts it again over the same data, maybe with other settings. */
  restart(changes?: Readonly<Record<string, string>>): Promise<void>
}

/** @param environment settings by their variable names, over the defaults for tests */
export async function startTestService(
  environment: Readonly<Record<string, string>> = {},
): Promise<TestService> {
  const dataDir = await mkdtemp(join(tmpdir(), 'vicinal-test-'))
  let config = configOf(dataDir, environment)
  let service = await startReady(config).catch(async (error: unknown) => {
    await rm(dataDir, { recursive: true, force: true })
    throw error
  })
  return {
    dataDir,
    get config() {
      return config
    },
    get service() {
      return service
    },
    get httpUrl() {
      return `http://127.0.0.1:${service.httpAddress?.port}`
    },
    get grpcAddress() {
      return `localhost:${service.grpcAddress.port}`
    },
    async restart(changes = {}) {
      await service.close()
      config = configOf(dataDir, { ...environment, ...changes })
      service = await startReady(config)
    },
    async [Symbol.asyncDispose]() {
      await service.close()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

function configOf(dataDir: string, environment: Readonly<Record<string, string>>): Config {
  return readConfig({
    DATA_DIR: dataDir,
    GRPC_PORT: '0',
    HTTP_PORT: '0',
    GRPC_ROOT_PASSWORD: apiKey,
    LOG_LEVEL: 'silent',
    SEARCH_THREADS: '2',
    SHUTDOWN_TIMEOUT_MS: '500',
    ...environment,
  })
}

async function startReady(config: Config): Promise<Service> {
  const service = await startService(config, {
    logger: createLogger({ level: config.logLevel, pretty: false }),
  })
  try {
    await service.ready
  } catch (error) {
    await service.close()
    throw error
  }
  return service
}
