import { type Signal, signal } from '@preact/signals'

/** What the console needs to know of the service before it shows a view. */
export interface ServiceConfig {
  /** The origins that images may be loaded from. The page's content security policy blocks all others. */
  readonly imageOrigins: readonly string[]
  readonly grpcPort: number
  /** Whether the service is a node of a cluster. */
  readonly isCluster: boolean
}

/** The configuration until it is loaded: no image may be loaded from another origin. */
const unknown: ServiceConfig = { imageOrigins: [], grpcPort: 50_051, isCluster: false }

export const serviceConfig: Signal<ServiceConfig> = signal(unknown)

/** Loads the configuration from a file next to the page, which needs no key. */
export async function loadServiceConfig(): Promise<void> {
  try {
    const response = await fetch(new URL('config.json', document.baseURI), { cache: 'no-cache' })
    if (!response.ok) return
    const found = (await response.json()) as {
      readonly image_origins: readonly string[]
      readonly grpc_port: number
      readonly cluster: boolean
    }
    serviceConfig.value = {
      imageOrigins: found.image_origins,
      grpcPort: found.grpc_port,
      isCluster: found.cluster,
    }
  } catch {
    // The server does not respond, which every view reports.
  }
}
