import { text } from './kinds.ts'
import type { Row } from './row.ts'

export class ClusterCredentialSettings {
  readonly clusterNatsCredentials: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'File with the JWT and the seed for the log servers, as `nsc` writes it.',
  })

  readonly clusterNatsCa: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'PEM file with the certificate authority of the log servers. With it, the connection uses TLS.',
  })

  readonly clusterNatsCert: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'PEM file with the certificate that this node presents to the log servers.',
  })

  readonly clusterNatsKey: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'PEM file with the private key of that certificate.',
  })

  readonly clusterTlsCa: Row<string | undefined> = text('file', {
    default: undefined,
    defaultText: 'none: plaintext',
    doc: 'PEM file with the certificate authority of the nodes. With it, the link uses TLS, and both sides require a certificate of this authority, which should issue no other certificates.',
  })

  readonly clusterTlsCert: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'PEM file with the certificate that this node presents to the others: for the host of its address, or for CLUSTER_TLS_NAME.',
  })

  readonly clusterTlsKey: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'PEM file with the private key of that certificate.',
  })

  readonly clusterTlsName: Row<string | undefined> = text('name', {
    default: undefined,
    defaultText: 'the host of each node',
    doc: 'Name in the certificates of all nodes, if they have one name in common.',
  })
}
