import { hostname } from 'node:os'
import { clusterName, clusterSecret, integer, port, text, urls } from './kinds.ts'
import type { Row } from './row.ts'

export class ClusterSettings {
  readonly clusterNatsUrl: Row<readonly string[]> = urls(['nats:', 'tls:'], {
    default: [],
    defaultText: 'none: one node',
    secret: true,
    doc: 'Log servers of the cluster that this node belongs to, separated by commas, as in `nats://log1:4222,nats://log2:4222`. If the servers require a user and a password, put these before an `@`. `tls://` requires TLS. Prefer the environment to a flag.',
  })

  readonly clusterNatsMonitorUrls: Row<readonly string[]> = urls(['http:', 'https:'], {
    default: [],
    defaultText: 'port 8222 of the log servers',
    doc: 'Monitoring addresses of the log servers, separated by commas. At its start, a node asks each server whether it fsyncs every record, and refuses a server that does not.',
  })

  readonly clusterName: Row<string> = clusterName({
    default: 'vicinal',
    doc: 'Name of the cluster: log servers can serve several clusters.',
  })

  readonly clusterNodeName: Row<string> = text('name', {
    default: hostname(),
    defaultText: 'the host name',
    doc: 'Name of this node, unique in the cluster.',
  })

  readonly clusterZone: Row<string> = text('name', {
    default: '',
    defaultText: 'none',
    doc: 'Zone of this node, as the status of the cluster shows it. Copies of a point are spread over the zones.',
  })

  readonly clusterReplicas: Row<number | undefined> = integer(1, 1_000, {
    default: undefined,
    defaultText: 'all nodes',
    doc: 'Nodes that hold each point. A cluster can have more nodes than that if its first node starts with this setting and with a link (CLUSTER_SECRET or CLUSTER_TLS_CA). Each node then holds only some of the points. `vicinal cluster replicas` changes the number later. In any other cluster, a node beyond that number does not start.',
  })

  readonly clusterAdvertise: Row<string> = text('address', {
    default: '',
    defaultText: 'the host name and HTTP_PORT',
    doc: 'Address at which clients and operators reach this node, as the status of the cluster shows it.',
  })

  readonly clusterSecret: Row<string | undefined> = clusterSecret({
    defaultText: 'none: no link',
    doc: 'Secret that all nodes of the cluster share, at least 16 characters. With it, or with CLUSTER_TLS_CA, the nodes ask each other over a separate link at CLUSTER_PORT; without both there is no link. A secret keeps others out, but does not hide what is sent: for that, set the certificates. Prefer the environment: a flag shows in the process list.',
  })

  readonly clusterHost: Row<string> = text('host', {
    default: 'localhost',
    doc: 'Address on which this node listens for the other nodes, if there is a link; 0.0.0.0 listens on all.',
  })

  readonly clusterPort: Row<number> = port({
    default: 50052,
    doc: 'Port on which this node listens for the other nodes, if there is a link; 0 takes a free one.',
  })

  readonly clusterPeerAdvertise: Row<string> = text('address', {
    default: '',
    defaultText: 'CLUSTER_HOST, or the host name if that is all addresses, and CLUSTER_PORT',
    doc: 'Host and port at which the other nodes reach CLUSTER_PORT of this one.',
  })
}
