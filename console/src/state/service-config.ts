import { type Signal, signal } from '@preact/signals'

/** What the pages have to know of the service's settings. */
export interface ServiceConfig {
  /** Where images may be loaded from; the policy of the page allows no others. */
  readonly imageOrigins: readonly string[]
  readonly grpcPort: number
}

/** Until it is known, nothing is loaded from elsewhere. */
const unknown: ServiceConfig = { imageOrigins: [], grpcPort: 50_051 }

export const serviceConfig: Signal<ServiceConfig> = signal(unknown)

/** It lies beside the page and needs no key. */
export async function loadServiceConfig(): Promise<void> {
  try {
    const response = await fetch(new URL('config.json', document.baseURI), { cache: 'no-cache' })
    if (!response.ok) return
    const found = (await response.json()) as {
      readonly image_origins: readonly string[]
      readonly grpc_port: number
    }
    serviceConfig.value = { imageOrigins: found.image_origins, grpcPort: found.grpc_port }
  } catch {
    // The server does not answer, which every view says for itself.
  }
}
