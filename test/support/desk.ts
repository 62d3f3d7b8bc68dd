import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createHttpClient, type VectorClient } from '../../src/client/index.ts'
import { type Ended, run, temporaryDirectory } from './process.ts'
import { apiKey, startTestService, type TestService } from './service.ts'
import type { TestSettings } from './settings.ts'

/** A service, a directory, and the command line configured for both. */
export class Desk implements AsyncDisposable {
  readonly service: TestService
  readonly client: VectorClient
  readonly #directory: AsyncDisposable & { readonly path: string }

  private constructor(service: TestService, directory: AsyncDisposable & { readonly path: string }) {
    this.service = service
    this.client = createHttpClient({ baseUrl: service.httpUrl })
    this.#directory = directory
  }

  static async open(environment: TestSettings = {}): Promise<Desk> {
    return new Desk(await startTestService(environment), await temporaryDirectory())
  }

  file(name: string, content: string | Uint8Array): string {
    writeFileSync(this.path(name), content)
    return this.path(name)
  }

  read(name: string): string {
    return readFileSync(this.path(name), 'utf8')
  }

  path(name: string): string {
    return join(this.#directory.path, name)
  }

  get overGrpc(): readonly string[] {
    return ['--grpc', this.service.grpcAddress, '--api-key', apiKey]
  }

  get overHttp(): readonly string[] {
    return ['--http', this.service.httpUrl]
  }

  vicinal(...args: readonly string[]): Promise<Ended> {
    return run([...args, ...this.overGrpc])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service[Symbol.asyncDispose]()
    await this.#directory[Symbol.asyncDispose]()
  }
}
