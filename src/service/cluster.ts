import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { ByteBudget } from '../base/budgets.ts'
import type { Logger } from '../base/log.ts'
import type { ClusterTimings } from '../cluster/cluster-metrics.ts'
import type { ClusterService } from '../cluster/cluster-service.ts'
import type { LinkSettings, OpenLog } from '../cluster/cluster-service-options.ts'
import type { Config } from '../config.ts'

interface ClusterParts {
  readonly logger: Logger
  readonly openLog: OpenLog | undefined
  /** Counts the answers of the process. */
  readonly answerBytes: ByteBudget
  /** Undefined until the metrics are loaded, which happens while the node connects. */
  readonly timings: () => ClusterTimings | undefined
  /** The key that other nodes accept over HTTP. */
  readonly peerKey: () => string | undefined
  /** The HTTP port that this node listens on. */
  readonly httpPort: () => number
  readonly onServing: (isServing: boolean) => void
}

/** Creates the cluster that the settings name; undefined: none. Its libraries are loaded only then. */
export async function clusterOf(config: Config, parts: ClusterParts): Promise<ClusterService | undefined> {
  if (config.clusterNatsUrl.length === 0) return undefined
  const [{ ClusterService }, { HttpReplicaSource }] = await Promise.all([
    import('../cluster/cluster-service.ts'),
    import('../cluster/http-replica-source.ts'),
  ])
  const { clusterName: cluster, clusterNodeName: node, httpHost } = config
  const { logger, openLog, timings, answerBytes, peerKey, httpPort, onServing } = parts
  const host = isAnyAddress(httpHost) ? hostname() : httpHost
  const options = {
    ...{ cluster, node, name: `vicinal ${node}`, zone: config.clusterZone },
    address: () => config.clusterAdvertise || `${host.includes(':') ? `[${host}]` : host}:${httpPort()}`,
    replicas: config.clusterReplicas,
    ...addressesOf(config.clusterNatsUrl),
    ...filesOf(config.clusterNatsCerts),
    ...{ logBytesMax: config.clusterLogBytes, appendsMax: config.clusterMaxAppends },
    appendTimeoutMs: config.clusterAppendTimeoutMs,
    ...{ maxBufferedBytes: config.maxBufferedBytes, maxRequestBytes: config.maxRequestBytes },
    ...{ openLog, onServing },
    link: linkOf(config, { answerBytes, onSeconds: (seconds) => timings()?.link(seconds) }),
    sourceOf: (name: string, { address }: { readonly address: string }) =>
      new HttpReplicaSource({ node: name, address, apiKey: peerKey() }),
    onAppend: (seconds: number) => timings()?.append(seconds),
    onApply: (seconds: number) => timings()?.apply(seconds),
    onAcknowledge: (seconds: number) => timings()?.acknowledge(seconds),
  }
  return new ClusterService(options, logger)
}

/** Divides the addresses of CLUSTER_NATS_URL into those of log servers and their monitoring addresses. */
function addressesOf(all: readonly string[]): { readonly urls: string[]; readonly monitorUrls: string[] } {
  const isMonitor = (url: string): boolean => url.startsWith('http')
  return { urls: all.filter((url) => !isMonitor(url)), monitorUrls: all.filter(isMonitor) }
}

/** The files of CLUSTER_NATS_CERTS that exist, under the names that Kubernetes gives them in a secret. */
function filesOf(directory: string | undefined): Readonly<Record<CertificateFile, string | undefined>> {
  const at = (name: string): string | undefined => {
    if (directory === undefined) return undefined
    const path = join(directory, name)
    return existsSync(path) ? path : undefined
  }
  return {
    ...{ caFile: at('ca.crt'), certFile: at('tls.crt'), keyFile: at('tls.key') },
    credentialsFile: at('nats.creds'),
  }
}

type CertificateFile = 'caFile' | 'certFile' | 'keyFile' | 'credentialsFile'

/**
 * The settings of the link between nodes; undefined when neither a secret nor certificates authenticate nodes.
 *
 * @throws Error when the settings do not fit together
 */
function linkOf(
  config: Config,
  parts: { readonly answerBytes: ByteBudget; readonly onSeconds: (seconds: number) => void },
): LinkSettings | undefined {
  const { clusterSecret: secret, clusterHost: host, clusterPeerAdvertise } = config
  const {
    clusterTlsCa: caFile,
    clusterTlsCert: certFile,
    clusterTlsKey: keyFile,
    clusterTlsName: name,
  } = config
  const files = [caFile, certFile, keyFile].filter((file) => file !== undefined)
  if (files.length === 0 && secret === undefined) return undefined
  if (files.length % 3 !== 0) {
    throw new Error(
      'CLUSTER_TLS_CA, CLUSTER_TLS_CERT and CLUSTER_TLS_KEY belong together: set all three or none',
    )
  }
  const shown = isAnyAddress(host) ? hostname() : host
  return {
    ...{ secret, host, port: config.clusterPort, timeoutMs: config.clusterPeerTimeoutMs },
    callsMax: config.clusterMaxPeerCalls,
    tls: caFile === undefined ? undefined : { caFile, certFile: certFile!, keyFile: keyFile!, name },
    addressAt: (port) => clusterPeerAdvertise || `${shown.includes(':') ? `[${shown}]` : shown}:${port}`,
    answerBytes: parts.answerBytes,
    onCall: (_, seconds) => parts.onSeconds(seconds),
  }
}

function isAnyAddress(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}
