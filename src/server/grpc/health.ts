import { createRequire } from 'node:module'
import type { Server } from '@grpc/grpc-js'
import type { HealthImplementation } from 'grpc-health-check'
import { addLazily } from './lazy-services.ts'

export type ServingStatus = 'SERVING' | 'NOT_SERVING'

const load = createRequire(import.meta.url)

/** The service grpc.health.v1.Health. Its library is loaded on the first call. */
export class Health {
  readonly #statuses: Record<string, ServingStatus> = {}
  #library: HealthImplementation | undefined

  /** @param names of the services whose status it reports, with '' for the whole server; all start as NOT_SERVING */
  constructor(server: Server, names: readonly string[]) {
    for (const name of names) this.#statuses[name] = 'NOT_SERVING'
    const methods = ['Check', 'Watch', 'List'].map((name) => ({
      path: `/grpc.health.v1.Health/${name}`,
      requestStream: false,
      responseStream: name === 'Watch',
    }))
    addLazily(server, methods, (registrar) => {
      const library = load('grpc-health-check') as typeof import('grpc-health-check')
      this.#library = new library.HealthImplementation({ ...this.#statuses })
      this.#library.addToServer(registrar)
    })
  }

  /** Sets the status of all services, and notifies their watchers. */
  set(status: ServingStatus): void {
    for (const name of Object.keys(this.#statuses)) {
      this.#statuses[name] = status
      this.#library?.setStatus(name, status)
    }
  }
}
