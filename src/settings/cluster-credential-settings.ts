import { text } from './kinds.ts'
import type { Row } from './row.ts'

export class ClusterCredentialSettings {
  readonly clusterNatsCredentials: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'File with JWT and seed for the log servers, as `nsc` writes it.',
  })

  readonly clusterNatsCa: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'File with the certificate authority of the log servers, PEM; with it the connection is TLS.',
  })

  readonly clusterNatsCert: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'File with the certificate that this node shows to the log servers, PEM.',
  })

  readonly clusterNatsKey: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'File with the private key of that certificate, PEM.',
  })

  readonly clusterTlsCa: Row<string | undefined> = text('file', {
    default: undefined,
    defaultText: 'none: plaintext',
    doc: 'File with the certificate authority of the nodes, PEM. With it the link is TLS, and both sides demand a certificate of this authority: no other certificates should come from it.',
  })

  readonly clusterTlsCert: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'File with the certificate that this node shows to the others, PEM: for the host of its address, or for CLUSTER_TLS_NAME.',
  })

  readonly clusterTlsKey: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'File with the private key of that certificate, PEM.',
  })

  readonly clusterTlsName: Row<string | undefined> = text('name', {
    default: undefined,
    defaultText: 'the host of each node',
    doc: 'Name that the certificates of all nodes have, if they have one name in common.',
  })
}
