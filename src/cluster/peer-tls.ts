import { readFileSync } from 'node:fs'
import { ChannelCredentials, type ChannelOptions, ServerCredentials } from '@grpc/grpc-js'

/**
 * PEM files. Every node presents its certificate, and requires one from the other nodes, issued by the same
 * authority.
 */
export interface PeerTls {
  readonly caFile: string
  readonly certFile: string
  readonly keyFile: string
  /** The name in the certificates of all nodes; undefined: each has the host of its own address. */
  readonly name?: string | undefined
}

/** @throws Error that names the file that cannot be read */
export function serverCredentials(tls: PeerTls | undefined): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure()
  const pair = {
    private_key: read(tls.keyFile, 'CLUSTER_TLS_KEY'),
    cert_chain: read(tls.certFile, 'CLUSTER_TLS_CERT'),
  }
  return ServerCredentials.createSsl(read(tls.caFile, 'CLUSTER_TLS_CA'), [pair], true)
}

/** @throws Error that names the file that cannot be read */
export function channelCredentials(tls: PeerTls | undefined): ChannelCredentials {
  if (tls === undefined) return ChannelCredentials.createInsecure()
  return ChannelCredentials.createSsl(
    read(tls.caFile, 'CLUSTER_TLS_CA'),
    read(tls.keyFile, 'CLUSTER_TLS_KEY'),
    read(tls.certFile, 'CLUSTER_TLS_CERT'),
  )
}

export function channelNames(tls: PeerTls | undefined): ChannelOptions {
  if (tls?.name === undefined) return {}
  return { 'grpc.ssl_target_name_override': tls.name, 'grpc.default_authority': tls.name }
}

function read(file: string, setting: string): Buffer {
  try {
    return readFileSync(file)
  } catch (cause) {
    throw new Error(`${setting} names ${file}, which cannot be read`, { cause })
  }
}
