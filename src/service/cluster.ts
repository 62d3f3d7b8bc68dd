import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { ByteBudget } from '../base/budgets.ts'
import type { Logger } from '../base/log.ts'
import type { ClusterService } from '../cluster/cluster-service.ts'
import type { OpenLog } from '../cluster/node-state.ts'
import type { Config } from '../config.ts'

interface ClusterParts {
  readonly logger: Logger
  readonly openLog: OpenLog | undefined
  /** Counts the answers of the process. */
  readonly answerBytes: ByteBudget
  /** The HTTP port that this node listens on. */
  readonly httpPort: () => number
  readonly onServing: (isServing: boolean) => void
}

/** Creates the cluster that the settings name; undefined: none. Its libraries are loaded only then. */
export async function clusterOf(config: Config, parts: ClusterParts): Promise<ClusterService | undefined> {
  if (config.clusterNatsUrl.length === 0) return undefined
  const { ClusterService } = await import('../cluster/cluster-service.ts')
  const { clusterName: cluster, clusterNodeName: node, httpHost } = config
  const { logger, httpPort, ...passed } = parts
  const host = isAnyAddress(httpHost) ? hostname() : httpHost
  const options = {
    ...logOf(config),
    cluster,
    node,
    zone: config.clusterZone,
    address: () => `${host.includes(':') ? `[${host}]` : host}:${httpPort()}`,
    replicas: config.clusterReplicas,
    dimension: config.dimension,
    maxBufferedBytes: config.maxBufferedBytes,
    maxRequestBytes: config.maxRequestBytes,
    ...passed,
  }
  return new ClusterService(options, logger)
}

/**
 * Founds the cluster that the settings name, in its log servers.
 *
 * @returns whether there was none
 */
export async function foundCluster(config: Config, logger: Logger): Promise<boolean> {
  const { openNatsCluster } = await import('../cluster/log/nats-cluster.ts')
  const { signal } = new AbortController()
  const log = logOf(config)
  let isNew = false
  const onUnfounded = (): void => {
    isNew = true
  }
  const cluster = await openNatsCluster({ ...log, mayFound: true, onUnfounded }, logger, signal)
  await cluster.close()
  return isNew
}

function logOf(config: Config) {
  return {
    cluster: config.clusterName,
    name: `vicinal ${config.clusterNodeName}`,
    ...addressesOf(config.clusterNatsUrl),
    ...filesOf(config.certsDir),
    logBytesMax: config.clusterLogBytes,
  }
}

/** Divides the addresses of CLUSTER_NATS_URL into those of log servers and their monitoring addresses. */
function addressesOf(all: readonly string[]): { readonly urls: string[]; readonly monitorUrls: string[] } {
  const isMonitor = (url: string): boolean => url.startsWith('http')
  return { urls: all.filter((url) => !isMonitor(url)), monitorUrls: all.filter(isMonitor) }
}

/** The files in `nats` of CERTS_DIR that exist, under the names that Kubernetes gives them in a secret. */
function filesOf(directory: string | undefined): Readonly<Record<CertificateFile, string | undefined>> {
  const at = (name: string): string | undefined => {
    if (directory === undefined) return undefined
    const path = join(directory, 'nats', name)
    return existsSync(path) ? path : undefined
  }
  return {
    caFile: at('ca.crt'),
    certFile: at('tls.crt'),
    keyFile: at('tls.key'),
    credentialsFile: at('nats.creds'),
  }
}

type CertificateFile = 'caFile' | 'certFile' | 'keyFile' | 'credentialsFile'

function isAnyAddress(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}
