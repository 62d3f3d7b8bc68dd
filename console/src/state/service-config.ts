import { type Signal, signal } from '@preact/signals'

/** The settings of the service that the console needs. */
export interface ServiceConfig {
  /** The origins that images may be loaded from. The page's content security policy blocks all others. */
  readonly imageOrigins: readonly string[]
  readonly grpcPort: number
}

/** The configuration until it is loaded: no image may be loaded from another origin. */
const unknown: ServiceConfig = { imageOrigins: [], grpcPort: 50_051 }

export const serviceConfig: Signal<ServiceConfig> = signal(unknown)

/** Loads the configuration from a file next to the page, which needs no key. */
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
    // The server does not respond, which every view reports.
  }
}
