import { availableParallelism, hostname } from 'node:os'
import { hnswBounds } from './base/collection.ts'
import { type LogLevel, logLevels } from './base/log.ts'
import { dimensionMax } from './base/point.ts'
import type { SettingInfo, SettingSource } from './base/setting-info.ts'

/**
 * Every setting of the server in one table. Start-up validation, `vicinal serve --help` and the settings
 * reference in docs/ are all made from it, so they cannot disagree.
 */

/** One row: how a setting is named, read and explained. `parse` throws an Error that says what is allowed. */
export interface Setting<Value> {
  readonly env: string
  /** The command-line flag without its dashes; flags win over the environment. */
  readonly flag: string
  readonly default: Value
  /** How the default reads in help and docs, where its value alone would not tell. */
  readonly defaultText?: string
  /** What a value looks like in help: `<placeholder>`. */
  readonly placeholder: string
  readonly doc: string
  readonly group: 'data' | 'search' | 'grpc' | 'http' | 'embeddings' | 'limits' | 'cluster' | 'process'
  readonly secret?: boolean
  readonly parse: (text: string) => Value
}

const mebibyte = 1024 * 1024

/**
 * The table. It is a class because a field of a class can state its type, which is then both checked and the only place
 * that says what a setting's value is: `Config` follows from it.
 */
class Settings {
  readonly dataDir: Setting<string> = {
    env: 'DATA_DIR',
    flag: 'data-dir',
    default: './data',
    placeholder: 'path',
    group: 'data',
    doc: 'Directory of the stored data; made with mode 0700 when missing.',
    parse: nonEmpty,
  }

  readonly dimension: Setting<number | undefined> = {
    env: 'DIMENSION',
    flag: 'dimension',
    default: undefined,
    defaultText: 'fixed by the first insert',
    placeholder: 'n',
    group: 'data',
    doc: `Length of every stored and query vector, 1..${dimensionMax}. It is stored with the data; a different one refuses to start.`,
    parse: integer(1, dimensionMax),
  }

  readonly vectorsOnDisk: Setting<boolean> = {
    env: 'VECTORS_ON_DISK',
    flag: 'vectors-on-disk',
    default: false,
    placeholder: 'true|false',
    group: 'data',
    doc: 'Keeps only codes and links in memory, a quarter of the vectors or less, and reads what a search needs of the vectors from disk: for collections larger than memory.',
    parse: boolean,
  }

  readonly hnswEf: Setting<number> = {
    env: 'HNSW_EF',
    flag: 'hnsw-ef',
    default: 128,
    placeholder: 'n',
    group: 'search',
    doc: 'Default search breadth ef: larger finds more of the true neighbours and takes longer.',
    parse: integer(1, 1_000_000),
  }

  readonly hnswM: Setting<number> = {
    env: 'HNSW_M',
    flag: 'hnsw-m',
    default: 16,
    placeholder: 'n',
    group: 'search',
    doc: 'Links of a point in the HNSW graph (twice as many on its lowest level): more finds more and takes more memory. A change rebuilds the graph.',
    parse: integer(hnswBounds.m.min, hnswBounds.m.max),
  }

  readonly hnswEfConstruction: Setting<number> = {
    env: 'HNSW_EF_CONSTRUCTION',
    flag: 'hnsw-ef-construction',
    default: 128,
    placeholder: 'n',
    group: 'search',
    doc: 'Breadth of the search for the links of a new point: larger makes a better graph, slower. Holds for points that are linked from then on.',
    parse: integer(hnswBounds.efConstruction.min, hnswBounds.efConstruction.max),
  }

  readonly hnswCodeBits: Setting<4 | 7 | undefined> = {
    env: 'HNSW_CODE_BITS',
    flag: 'hnsw-code-bits',
    default: undefined,
    defaultText: '4 from 256 dimensions on, else 7',
    placeholder: '4|7',
    group: 'search',
    doc: 'Bits of a component in the codes that graphs are built and walked on: 4 takes half the memory of 7 and is faster where vectors are long, 7 orders near neighbours better where they are short, or far from the origin beside their distances. Results are measured exactly in any case. A change keeps the graph; recall is measured anew.',
    parse: (text) => (oneOf(['4', '7'])(text) === '4' ? 4 : 7),
  }

  readonly recallTarget: Setting<number> = {
    env: 'RECALL_TARGET',
    flag: 'recall-target',
    default: 0.98,
    placeholder: 'share',
    group: 'search',
    doc: 'Share of the true neighbours that a search at the default ef has to find, 0.5..1. Measured on stored points for each metric: a graph that falls short is searched wider, and one that still falls short gives way to the exact scan.',
    parse: share(0.5, 1),
  }

  readonly searchThreads: Setting<number> = {
    env: 'SEARCH_THREADS',
    flag: 'search-threads',
    default: availableParallelism(),
    defaultText: 'one per core',
    placeholder: 'n',
    group: 'search',
    doc: 'Worker threads that search.',
    parse: integer(1, 256),
  }

  readonly indexThreads: Setting<number> = {
    env: 'INDEX_THREADS',
    flag: 'index-threads',
    default: availableParallelism(),
    defaultText: 'one per core',
    placeholder: 'n',
    group: 'search',
    doc: 'Threads that link new points into the index, at a lower priority than searches.',
    parse: integer(1, 64),
  }

  readonly grpcHost: Setting<string> = {
    env: 'GRPC_HOST',
    flag: 'grpc-host',
    default: 'localhost',
    placeholder: 'host',
    group: 'grpc',
    doc: 'Address the gRPC server listens on. 0.0.0.0 listens on all: the transport is plaintext, so put TLS in front.',
    parse: nonEmpty,
  }

  readonly grpcPort: Setting<number> = {
    env: 'GRPC_PORT',
    flag: 'grpc-port',
    default: 50051,
    placeholder: 'port',
    group: 'grpc',
    doc: 'gRPC port; 0 takes a free one and logs it.',
    parse: integer(0, 65_535),
  }

  readonly grpcRootPassword: Setting<string | undefined> = {
    env: 'GRPC_ROOT_PASSWORD',
    flag: 'grpc-root-password',
    default: undefined,
    defaultText: 'a random key in DATA_DIR/api-key',
    placeholder: 'key',
    group: 'grpc',
    secret: true,
    doc: 'API key that gRPC callers present as `authorization` metadata. Prefer the environment: a flag shows in the process list.',
    parse: headerValue,
  }

  readonly grpcRootPasswordNext: Setting<string | undefined> = {
    env: 'GRPC_ROOT_PASSWORD_NEXT',
    flag: 'grpc-root-password-next',
    default: undefined,
    defaultText: 'none',
    placeholder: 'key',
    group: 'grpc',
    secret: true,
    doc: 'A second key that gRPC callers may present, while the first one is being replaced.',
    parse: headerValue,
  }

  readonly apiKeysFile: Setting<string | undefined> = {
    env: 'API_KEYS_FILE',
    flag: 'api-keys-file',
    default: undefined,
    defaultText: 'none',
    placeholder: 'file',
    group: 'grpc',
    doc: 'File of further keys for both transports: a line each with a role (`read` or `write`), a name and a key. Others must not be able to read it (mode 600 or 640). Read again within a second of a change. With it, HTTP demands a key too.',
    parse: nonEmpty,
  }

  readonly httpHost: Setting<string> = {
    env: 'HTTP_HOST',
    flag: 'http-host',
    default: '127.0.0.1',
    placeholder: 'host',
    group: 'http',
    doc: 'Address the HTTP server listens on. HTTP has no authentication unless HTTP_API_KEY or API_KEYS_FILE is set.',
    parse: nonEmpty,
  }

  readonly httpPort: Setting<number> = {
    env: 'HTTP_PORT',
    flag: 'http-port',
    default: 3000,
    placeholder: 'port',
    group: 'http',
    doc: 'HTTP port; 0 takes a free one and logs it.',
    parse: integer(0, 65_535),
  }

  readonly disableHttp: Setting<boolean> = {
    env: 'DISABLE_HTTP',
    flag: 'disable-http',
    default: false,
    placeholder: 'true|false',
    group: 'http',
    doc: '`true` opens no HTTP port at all.',
    parse: boolean,
  }

  readonly httpApiKey: Setting<string | undefined> = {
    env: 'HTTP_API_KEY',
    flag: 'http-api-key',
    default: undefined,
    defaultText: 'none: HTTP is open',
    placeholder: 'key',
    group: 'http',
    secret: true,
    doc: 'When set, HTTP demands it as `authorization` on everything but /health, /readyz, / and the docs. Prefer the environment: a flag shows in the process list.',
    parse: headerValue,
  }

  readonly httpApiKeyNext: Setting<string | undefined> = {
    env: 'HTTP_API_KEY_NEXT',
    flag: 'http-api-key-next',
    default: undefined,
    defaultText: 'none',
    placeholder: 'key',
    group: 'http',
    secret: true,
    doc: 'A second key that HTTP takes, while the first one is being replaced. Set alone, it is demanded as HTTP_API_KEY is.',
    parse: headerValue,
  }

  readonly allowedHosts: Setting<readonly string[]> = {
    env: 'ALLOWED_HOSTS',
    flag: 'allowed-hosts',
    default: [],
    defaultText: 'none',
    placeholder: 'names',
    group: 'http',
    doc: 'Further names, with commas between them, by which HTTP on loopback may be called while it has no key. Others than addresses and localhost are refused, so that no web page can reach it by a name that points here (DNS rebinding).',
    parse: hostNames,
  }

  readonly corsOrigins: Setting<readonly string[]> = {
    env: 'CORS_ORIGINS',
    flag: 'cors-origins',
    default: [],
    defaultText: 'none',
    placeholder: 'origins',
    group: 'http',
    doc: 'Origins of web pages, with commas between them, whose scripts may call HTTP from a browser. They can do whatever the service allows: everything, while it has no key.',
    parse: origins,
  }

  readonly consoleImageOrigins: Setting<readonly string[]> = {
    env: 'CONSOLE_IMAGE_ORIGINS',
    flag: 'console-image-origins',
    default: [],
    defaultText: 'none',
    placeholder: 'origins',
    group: 'http',
    doc: 'Origins, with commas between them, that the console may load images from, for points of type Image whose content is an address. Without it the console shows only images that are in the content itself (data:) and loads nothing from elsewhere. Those hosts learn which images are looked at.',
    parse: origins,
  }

  readonly embeddingsUrl: Setting<string | undefined> = {
    env: 'EMBEDDINGS_URL',
    flag: 'embeddings-url',
    default: undefined,
    defaultText: 'none: texts are not embedded',
    placeholder: 'url',
    group: 'embeddings',
    doc: 'Base URL of an endpoint that embeds texts as OpenAI does, like `http://127.0.0.1:8080/v1`: `/embeddings` is added. With it, inserts and searches may have a text in place of a vector. Needs EMBEDDINGS_MODEL.',
    parse: endpointUrl,
  }

  readonly embeddingsModel: Setting<string | undefined> = {
    env: 'EMBEDDINGS_MODEL',
    flag: 'embeddings-model',
    default: undefined,
    defaultText: 'none',
    placeholder: 'name',
    group: 'embeddings',
    doc: 'Name of the model, as the endpoint knows it. The vectors of one collection have to come from one model: after a change, store them anew.',
    parse: nonEmpty,
  }

  readonly embeddingsApiKey: Setting<string | undefined> = {
    env: 'EMBEDDINGS_API_KEY',
    flag: 'embeddings-api-key',
    default: undefined,
    defaultText: 'none',
    placeholder: 'key',
    group: 'embeddings',
    secret: true,
    doc: 'Key that the endpoint demands, sent as `authorization: Bearer`. Prefer the environment: a flag shows in the process list.',
    parse: headerValue,
  }

  readonly embeddingsBatchSize: Setting<number> = {
    env: 'EMBEDDINGS_BATCH_SIZE',
    flag: 'embeddings-batch-size',
    default: 32,
    placeholder: 'n',
    group: 'embeddings',
    doc: 'The most texts in one request to the endpoint.',
    parse: integer(1, 2048),
  }

  readonly embeddingsMaxRequests: Setting<number> = {
    env: 'EMBEDDINGS_MAX_REQUESTS',
    flag: 'embeddings-max-requests',
    default: 4,
    placeholder: 'n',
    group: 'embeddings',
    doc: 'Requests to the endpoint at the same time; texts of further calls wait, and are sent together.',
    parse: integer(1, 256),
  }

  readonly embeddingsTimeoutMs: Setting<number> = {
    env: 'EMBEDDINGS_TIMEOUT_MS',
    flag: 'embeddings-timeout-ms',
    default: 60_000,
    placeholder: 'ms',
    group: 'embeddings',
    doc: 'Time the endpoint has for the texts of one request, retries included.',
    parse: integer(100, 300_000),
  }

  readonly embeddingsMaxTexts: Setting<number> = {
    env: 'EMBEDDINGS_MAX_TEXTS',
    flag: 'embeddings-max-texts',
    default: 10_000,
    placeholder: 'n',
    group: 'embeddings',
    doc: 'Texts that may wait or be embedded at once: a call with more is refused as too large, further calls as overload.',
    parse: integer(1, 1_000_000),
  }

  readonly embeddingsMaxTextBytes: Setting<number> = {
    env: 'EMBEDDINGS_MAX_TEXT_BYTES',
    flag: 'embeddings-max-text-bytes',
    default: 64 * 1024,
    defaultText: '65536 (64 KiB)',
    placeholder: 'size',
    group: 'embeddings',
    doc: 'The longest text that is embedded. Models have limits of their own, and some ignore what is beyond them.',
    parse: bytes(1, 16 * mebibyte),
  }

  readonly embeddingsCacheBytes: Setting<number> = {
    env: 'EMBEDDINGS_CACHE_BYTES',
    flag: 'embeddings-cache-bytes',
    default: 64 * mebibyte,
    defaultText: '67108864 (64 MiB)',
    placeholder: 'size',
    group: 'embeddings',
    doc: 'Memory for embeddings of the texts used last, which are not sent again. 0 keeps none.',
    parse: bytes(0, 64 * 1024 * mebibyte),
  }

  readonly maxLimit: Setting<number> = {
    env: 'MAX_LIMIT',
    flag: 'max-limit',
    default: 16_384,
    placeholder: 'n',
    group: 'limits',
    doc: 'Largest `limit` a search may ask for.',
    parse: integer(1, 1_000_000),
  }

  readonly maxRequestBytes: Setting<number> = {
    env: 'MAX_REQUEST_BYTES',
    flag: 'max-request-bytes',
    default: 64 * mebibyte,
    defaultText: '67108864 (64 MiB)',
    placeholder: 'size',
    group: 'limits',
    doc: 'Largest request on either transport.',
    parse: bytes(1024, 1024 * mebibyte),
  }

  readonly maxBufferedBytes: Setting<number> = {
    env: 'MAX_BUFFERED_BYTES',
    flag: 'max-buffered-bytes',
    default: 256 * mebibyte,
    defaultText: '268435456 (256 MiB)',
    placeholder: 'size',
    group: 'limits',
    doc: 'Memory for calls under way. It bounds three things, each on its own: requests that are arriving, being decoded or searched for; changes that wait for the disk; and answers that clients have not taken in yet. More is refused as overload. Of the requests and of the answers, three quarters are for those larger than 1 MiB, one of which is always let in when no other is there.',
    parse: bytes(1, 64 * 1024 * mebibyte),
  }

  readonly maxOpenCollections: Setting<number> = {
    env: 'MAX_OPEN_COLLECTIONS',
    flag: 'max-open-collections',
    default: 256,
    placeholder: 'n',
    group: 'limits',
    doc: 'Named collections whose points may be in memory at once. Beyond it those that nobody uses are closed, and opened again when somebody does.',
    parse: integer(1, 100_000),
  }

  readonly maxQueuedQueries: Setting<number> = {
    env: 'MAX_QUEUED_QUERIES',
    flag: 'max-queued-queries',
    default: 20_000,
    placeholder: 'n',
    group: 'limits',
    doc: 'Queries, those of batches counted singly, that may be waiting or running; more are refused as overload.',
    parse: integer(1, 10_000_000),
  }

  readonly maxQueuedResults: Setting<number> = {
    env: 'MAX_QUEUED_RESULTS',
    flag: 'max-queued-results',
    default: 500_000,
    placeholder: 'n',
    group: 'limits',
    doc: 'Ids that all searches under way may bring together, each query counted with its limit; a search that alone asks for more is refused as too large, others as overload. MAX_LIMIT is always let through.',
    parse: integer(1, 100_000_000),
  }

  readonly maxMemoryBytes: Setting<number> = {
    env: 'MAX_MEMORY_BYTES',
    flag: 'max-memory-bytes',
    default: 0,
    defaultText: '0 (no limit)',
    placeholder: 'size',
    group: 'limits',
    doc: 'Memory that points may take: vectors, index, ids. An insert that would pass it is refused; a start with more stored than that is not. What the process takes without points, some 200 MiB, comes on top. 0 sets no limit.',
    parse: bytes(0, Number.MAX_SAFE_INTEGER),
  }

  readonly maxIdempotencyKeys: Setting<number> = {
    env: 'MAX_IDEMPOTENCY_KEYS',
    flag: 'max-idempotency-keys',
    default: 1_000_000,
    placeholder: 'n',
    group: 'limits',
    doc: 'Idempotency keys that each collection keeps, for 24 hours: about 160 bytes on disk each, none of it in memory; the oldest are forgotten for new ones. Where points have ids of their own or are refused, a key takes more: 1 byte for a point with a new id, 17 for one with its own id, the text of its error for a refused one; above 2,000 bytes whole pages of 4 KiB, at most 1 MiB.',
    parse: integer(1, 1_000_000_000),
  }

  readonly maxIdempotencyBytes: Setting<number> = {
    env: 'MAX_IDEMPOTENCY_BYTES',
    flag: 'max-idempotency-bytes',
    default: 512 * mebibyte,
    defaultText: '536870912 (512 MiB)',
    placeholder: 'size',
    group: 'limits',
    doc: 'Disk space that the idempotency keys of a collection may take together, as MAX_IDEMPOTENCY_KEYS counts it; beyond it, the oldest are forgotten for new ones.',
    parse: bytes(2 * mebibyte, Number.MAX_SAFE_INTEGER),
  }

  readonly clusterNatsUrl: Setting<readonly string[]> = {
    env: 'CLUSTER_NATS_URL',
    flag: 'cluster-nats-url',
    default: [],
    defaultText: 'none: one node',
    placeholder: 'urls',
    group: 'cluster',
    secret: true,
    doc: 'Log servers of the cluster that this node belongs to, with commas between them, as in `nats://log1:4222,nats://log2:4222`, with user and password before an `@` where the servers want them; `tls://` demands TLS. Prefer the environment to a flag.',
    parse: urls(['nats:', 'tls:']),
  }

  readonly clusterNatsMonitorUrls: Setting<readonly string[]> = {
    env: 'CLUSTER_NATS_MONITOR_URLS',
    flag: 'cluster-nats-monitor-urls',
    default: [],
    defaultText: 'port 8222 of the log servers',
    placeholder: 'urls',
    group: 'cluster',
    doc: 'Monitoring addresses of the log servers, with commas between them: a start asks whether each fsyncs every record, and refuses one that does not.',
    parse: urls(['http:', 'https:']),
  }

  readonly clusterNatsCredentials: Setting<string | undefined> = {
    env: 'CLUSTER_NATS_CREDENTIALS',
    flag: 'cluster-nats-credentials',
    default: undefined,
    defaultText: 'none',
    placeholder: 'file',
    group: 'cluster',
    doc: 'File with JWT and seed for the log servers, as `nsc` writes it.',
    parse: nonEmpty,
  }

  readonly clusterNatsCa: Setting<string | undefined> = {
    env: 'CLUSTER_NATS_CA',
    flag: 'cluster-nats-ca',
    default: undefined,
    defaultText: 'none',
    placeholder: 'file',
    group: 'cluster',
    doc: 'File with the certificate authority of the log servers, PEM; with it the connection is TLS.',
    parse: nonEmpty,
  }

  readonly clusterNatsCert: Setting<string | undefined> = {
    env: 'CLUSTER_NATS_CERT',
    flag: 'cluster-nats-cert',
    default: undefined,
    defaultText: 'none',
    placeholder: 'file',
    group: 'cluster',
    doc: 'File with the certificate that this node shows to the log servers, PEM.',
    parse: nonEmpty,
  }

  readonly clusterNatsKey: Setting<string | undefined> = {
    env: 'CLUSTER_NATS_KEY',
    flag: 'cluster-nats-key',
    default: undefined,
    defaultText: 'none',
    placeholder: 'file',
    group: 'cluster',
    doc: 'File with the private key of that certificate, PEM.',
    parse: nonEmpty,
  }

  readonly clusterName: Setting<string> = {
    env: 'CLUSTER_NAME',
    flag: 'cluster-name',
    default: 'vicinal',
    placeholder: 'name',
    group: 'cluster',
    doc: 'Name of the cluster: log servers can have several.',
    parse: clusterName,
  }

  readonly clusterNodeName: Setting<string> = {
    env: 'CLUSTER_NODE_NAME',
    flag: 'cluster-node-name',
    default: hostname(),
    defaultText: 'the host name',
    placeholder: 'name',
    group: 'cluster',
    doc: 'Name of this node, different from those of all others.',
    parse: nonEmpty,
  }

  readonly clusterZone: Setting<string> = {
    env: 'CLUSTER_ZONE',
    flag: 'cluster-zone',
    default: '',
    defaultText: 'none',
    placeholder: 'name',
    group: 'cluster',
    doc: 'Zone of this node, as others see it in the status of the cluster.',
    parse: nonEmpty,
  }

  readonly clusterReplicas: Setting<number | undefined> = {
    env: 'CLUSTER_REPLICAS',
    flag: 'cluster-replicas',
    default: undefined,
    defaultText: 'all nodes',
    placeholder: 'n',
    group: 'cluster',
    doc: 'Nodes that have each point. With it and a link (CLUSTER_SECRET or CLUSTER_TLS_CA) at the start of its first node, a cluster can have more nodes than that, which have a part of the points each; `vicinal cluster replicas` changes the number later. In any other cluster a node beyond that number does not start.',
    parse: integer(1, 1_000),
  }

  readonly clusterAdvertise: Setting<string> = {
    env: 'CLUSTER_ADVERTISE',
    flag: 'cluster-advertise',
    default: '',
    defaultText: 'the host name and HTTP_PORT',
    placeholder: 'address',
    group: 'cluster',
    doc: 'Address by which clients and operators reach this node, as the status of the cluster shows it.',
    parse: nonEmpty,
  }

  readonly clusterSecret: Setting<string | undefined> = {
    env: 'CLUSTER_SECRET',
    flag: 'cluster-secret',
    default: undefined,
    defaultText: 'none: no link',
    placeholder: 'secret',
    group: 'cluster',
    secret: true,
    doc: 'Secret that all nodes of the cluster share, at least 16 characters. With it, or with CLUSTER_TLS_CA, the nodes ask each other over a link of their own at CLUSTER_PORT; without both there is no link. A secret keeps others out, and does not hide what is sent: for that, set the certificates. Prefer the environment: a flag shows in the process list.',
    parse: clusterSecret,
  }

  readonly clusterHost: Setting<string> = {
    env: 'CLUSTER_HOST',
    flag: 'cluster-host',
    default: 'localhost',
    placeholder: 'host',
    group: 'cluster',
    doc: 'Address at which this node listens for the other nodes, once there is a link; 0.0.0.0 listens on all.',
    parse: nonEmpty,
  }

  readonly clusterPort: Setting<number> = {
    env: 'CLUSTER_PORT',
    flag: 'cluster-port',
    default: 50052,
    placeholder: 'port',
    group: 'cluster',
    doc: 'Port at which this node listens for the other nodes, once there is a link; 0 takes a free one.',
    parse: integer(0, 65_535),
  }

  readonly clusterPeerAdvertise: Setting<string> = {
    env: 'CLUSTER_PEER_ADVERTISE',
    flag: 'cluster-peer-advertise',
    default: '',
    defaultText: 'CLUSTER_HOST, or the host name if that is all addresses, and CLUSTER_PORT',
    placeholder: 'address',
    group: 'cluster',
    doc: 'Host and port by which the other nodes reach CLUSTER_PORT of this one.',
    parse: nonEmpty,
  }

  readonly clusterTlsCa: Setting<string | undefined> = {
    env: 'CLUSTER_TLS_CA',
    flag: 'cluster-tls-ca',
    default: undefined,
    defaultText: 'none: plaintext',
    placeholder: 'file',
    group: 'cluster',
    doc: 'File with the certificate authority of the nodes, PEM. With it the link is TLS, and both sides demand a certificate of this authority: no other certificates should come from it.',
    parse: nonEmpty,
  }

  readonly clusterTlsCert: Setting<string | undefined> = {
    env: 'CLUSTER_TLS_CERT',
    flag: 'cluster-tls-cert',
    default: undefined,
    defaultText: 'none',
    placeholder: 'file',
    group: 'cluster',
    doc: 'File with the certificate that this node shows to the others, PEM: for the host of its address, or for CLUSTER_TLS_NAME.',
    parse: nonEmpty,
  }

  readonly clusterTlsKey: Setting<string | undefined> = {
    env: 'CLUSTER_TLS_KEY',
    flag: 'cluster-tls-key',
    default: undefined,
    defaultText: 'none',
    placeholder: 'file',
    group: 'cluster',
    doc: 'File with the private key of that certificate, PEM.',
    parse: nonEmpty,
  }

  readonly clusterTlsName: Setting<string | undefined> = {
    env: 'CLUSTER_TLS_NAME',
    flag: 'cluster-tls-name',
    default: undefined,
    defaultText: 'the host of each node',
    placeholder: 'name',
    group: 'cluster',
    doc: 'Name that the certificates of all nodes have, if they have one name in common.',
    parse: nonEmpty,
  }

  readonly clusterPeerTimeoutMs: Setting<number> = {
    env: 'CLUSTER_PEER_TIMEOUT_MS',
    flag: 'cluster-peer-timeout-ms',
    default: 10_000,
    placeholder: 'ms',
    group: 'cluster',
    doc: 'How long this node waits for the answer of another node, before it asks an owner of the same points, or gives up.',
    parse: integer(100, 600_000),
  }

  readonly clusterMaxPeerCalls: Setting<number> = {
    env: 'CLUSTER_MAX_PEER_CALLS',
    flag: 'cluster-max-peer-calls',
    default: 1_024,
    placeholder: 'n',
    group: 'cluster',
    doc: 'Requests to each other node that may be under way, and of each other node to this one; further ones are refused.',
    parse: integer(1, 65_536),
  }

  readonly clusterLogBytes: Setting<number> = {
    env: 'CLUSTER_LOG_BYTES',
    flag: 'cluster-log-bytes',
    default: 8 * 1024 * mebibyte,
    defaultText: '8589934592 (8 GiB)',
    placeholder: 'size',
    group: 'cluster',
    doc: 'Largest size of the log on each log server. Inserts are refused when 95 % of it are in use, deletes when all of it is. Nodes need what is in it to catch up after a pause; it is trimmed below what all nodes have on disk.',
    parse: bytes(16 * mebibyte, Number.MAX_SAFE_INTEGER),
  }

  readonly clusterAppendTimeoutMs: Setting<number> = {
    env: 'CLUSTER_APPEND_TIMEOUT_MS',
    flag: 'cluster-append-timeout-ms',
    default: 15_000,
    placeholder: 'ms',
    group: 'cluster',
    doc: 'How long a write is tried while log servers do not answer, as when their leader has died. Then it is told as one that may have been stored.',
    parse: integer(1_000, 60_000),
  }

  readonly clusterMaxAppends: Setting<number> = {
    env: 'CLUSTER_MAX_APPENDS',
    flag: 'cluster-max-appends',
    default: 64,
    placeholder: 'n',
    group: 'cluster',
    doc: 'Records of at most 1 MiB that a node sends to the log at once; further ones wait.',
    parse: integer(1, 4_096),
  }

  readonly requestTimeoutMs: Setting<number> = {
    env: 'REQUEST_TIMEOUT_MS',
    flag: 'request-timeout-ms',
    default: 60_000,
    placeholder: 'ms',
    group: 'limits',
    doc: 'Time a client has to send a whole request, headers and body, and then to take in the whole answer, of a snapshot each part.',
    parse: integer(100, 3_600_000),
  }

  readonly slowQueryMs: Setting<number> = {
    env: 'SLOW_QUERY_MS',
    flag: 'slow-query-ms',
    default: 100,
    placeholder: 'ms',
    group: 'limits',
    doc: 'Searches, lists, counts, facets and changes by filter that take at least this long are kept for an hour, with their metric, limit, ef, filter and plan, and without vectors; `GET /slow-queries` lists them.',
    parse: integer(0, 3_600_000),
  }

  readonly slowQueriesKept: Setting<number> = {
    env: 'SLOW_QUERIES_KEPT',
    flag: 'slow-queries-kept',
    default: 50,
    placeholder: 'n',
    group: 'limits',
    doc: 'Slow requests that are kept for each collection, the slowest ones; 0 keeps none.',
    parse: integer(0, 1000),
  }

  readonly shutdownTimeoutMs: Setting<number> = {
    env: 'SHUTDOWN_TIMEOUT_MS',
    flag: 'shutdown-timeout-ms',
    default: 5_000,
    placeholder: 'ms',
    group: 'process',
    doc: 'After SIGTERM or SIGINT, time that running requests have to end. HTTP connections on which nothing runs stay open for a tenth of it, at most 2 s: requests that come on them are refused with 503, not cut off.',
    parse: integer(0, 600_000),
  }

  readonly logLevel: Setting<LogLevel> = {
    env: 'LOG_LEVEL',
    flag: 'log-level',
    default: 'info',
    placeholder: logLevels.join('|'),
    group: 'process',
    doc: 'Least severe log line that is written.',
    parse: oneOf(logLevels),
  }

  readonly logFormat: Setting<'auto' | 'json' | 'pretty'> = {
    env: 'LOG_FORMAT',
    flag: 'log-format',
    default: 'auto',
    placeholder: 'auto|json|pretty',
    group: 'process',
    doc: '`auto` is pretty on a terminal and JSON lines elsewhere.',
    parse: oneOf(['auto', 'json', 'pretty'] as const),
  }
}

export const settings: Settings = new Settings()

export type SettingName = keyof Settings

/** The checked settings of one server, named as in `settings`. */
export type Config = { readonly [Name in SettingName]: Settings[Name]['default'] }

/** The rows of the table with their names, in its order. */
export const settingRows: readonly (readonly [SettingName, Setting<unknown>])[] = Object.entries(
  settings,
) as [SettingName, Setting<unknown>][]

/** A setting that cannot be used. The message names the setting, the value and what is allowed. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/**
 * Reads the settings from command-line flags and the environment, in that order of precedence; a variable
 * that is set but empty counts as unset.
 *
 * @param flags values of flags by setting name, as text
 * @throws ConfigError that names every bad setting, its value and what is allowed
 */
export function readConfig(
  environment: Readonly<Record<string, string | undefined>>,
  flags: Readonly<Partial<Record<SettingName, string>>> = {},
): Config {
  const faults: string[] = []
  const entries = settingRows.map(([name, row]): [SettingName, unknown] => {
    const flag = flags[name]
    const text = flag ?? (environment[row.env] || undefined)
    if (text === undefined) return [name, row.default]
    try {
      return [name, row.parse(text)]
    } catch (error) {
      const source = flag === undefined ? row.env : `--${row.flag}`
      const shown = row.secret ? 'the value' : JSON.stringify(text)
      faults.push(`${source}: ${shown} ${(error as Error).message}`)
      return [name, row.default]
    }
  })
  if (faults.length > 0) throw new ConfigError(faults.join('\n'))
  // TypeScript does not follow that each row has added the value of its own type.
  return Object.freeze(Object.fromEntries(entries) as Config)
}

/**
 * Where texts are embedded; undefined if they are not.
 *
 * @throws ConfigError if the settings for it do not belong together
 */
export function embeddingEndpoint({
  embeddingsUrl: url,
  embeddingsModel: model,
  embeddingsApiKey: apiKey,
}: Config):
  | { readonly url: string; readonly model: string; readonly apiKey: string | undefined }
  | undefined {
  if (url !== undefined) {
    if (model !== undefined) return { url, model, apiKey }
    throw new ConfigError('EMBEDDINGS_MODEL is missing: EMBEDDINGS_URL needs it')
  }
  if (model === undefined && apiKey === undefined) return undefined
  const alone = model === undefined ? 'EMBEDDINGS_API_KEY' : 'EMBEDDINGS_MODEL'
  throw new ConfigError(`${alone} is set, but EMBEDDINGS_URL is not: no text can be embedded`)
}

/** Whether HTTP asks for no key. */
export function isHttpOpen({ httpApiKey, httpApiKeyNext, apiKeysFile }: Config): boolean {
  return httpApiKey === undefined && httpApiKeyNext === undefined && apiKeysFile === undefined
}

/** The default of a setting as help and docs print it. */
export function defaultText(row: { readonly default: unknown; readonly defaultText?: string }): string {
  return row.defaultText ?? String(row.default)
}

/** What is in force, by the names of the variables, for the log: of secrets only whether they are set. */
export function effectiveSettings(config: Config): Readonly<Record<string, unknown>> {
  const entries = settingRows.map(([name, row]) => {
    const value = config[name]
    const isUnset = value === undefined || (row.secret && Array.isArray(value) && value.length === 0)
    if (isUnset) return [row.env, row.defaultText ?? 'unset']
    return [row.env, row.secret ? 'set' : value]
  })
  return Object.fromEntries(entries)
}

/** Where each value comes from. */
export type SettingSources = Readonly<Record<SettingName, SettingSource>>

/** Where `readConfig` takes each value from, by the same arguments. */
export function settingSources(
  environment: Readonly<Record<string, string | undefined>>,
  flags: Readonly<Partial<Record<SettingName, string>>> = {},
): SettingSources {
  const entries = settingRows.map(([name, { env }]): [SettingName, SettingSource] => {
    if (flags[name] !== undefined) return [name, 'flag']
    return [name, environment[env] ? 'environment' : 'default']
  })
  return Object.fromEntries(entries) as SettingSources
}

/**
 * The settings in force, for people; secrets are masked.
 *
 * @param sources undefined if they are not known; a value that is the default still counts as that
 */
export function describedSettings(config: Config, sources?: SettingSources): readonly SettingInfo[] {
  return settingRows.map(([name, row]) => ({
    name: row.env,
    flag: row.flag,
    group: row.group,
    value: shownValue(config[name], row.secret === true),
    source: sources === undefined ? (config[name] === row.default ? 'default' : undefined) : sources[name],
    default: defaultText(row),
    isSecret: row.secret === true,
    doc: row.doc,
  }))
}

/** @returns null for what is not set */
function shownValue(value: Config[SettingName], isSecret: boolean): SettingInfo['value'] {
  if (value === undefined) return null
  if (isSecret) return maskedSecret
  return typeof value === 'object' ? value.join(', ') : value
}

/** Tells not even how long it is. */
const maskedSecret = '********'

function nonEmpty(text: string): string {
  if (text.trim() === '') throw new Error('is empty')
  return text
}

/** A URL is logged, so it must not have secrets in it. */
function endpointUrl(text: string): string {
  const url = URL.parse(text)
  const isPlain = url !== null && url.username === '' && url.password === '' && url.search + url.hash === ''
  if (!isPlain || !['http:', 'https:'].includes(url.protocol)) {
    throw new Error('is not a URL like http://127.0.0.1:8080/v1, without user, query and fragment')
  }
  return text
}

function integer(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || value < least || value > most) {
      throw new Error(`is not a whole number from ${least} to ${most}`)
    }
    return value
  }
}

/** A number of bytes, or one with a unit. Every unit is a multiple of 1024, as for Docker and the JVM: `4G`, `4GB` and `4GiB` alike. */
function bytes(least: number, most: number): (text: string) => number {
  return (text) => {
    const [, digits, unit = ''] = /^(\d+)([kmgt]?)(?:(?<=[kmgt])i?b)?$/i.exec(text) ?? []
    const value = Number(digits) * 1024 ** ' kmgt'.indexOf(unit.toLowerCase() || ' ')
    if (!(value >= least && value <= most)) {
      throw new Error(`is not a size from ${least} to ${most} bytes, like 65536, 64K, 512M or 4G`)
    }
    return value
  }
}

function share(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (text.trim() === '' || !(value >= least && value <= most)) {
      throw new Error(`is not a number from ${least} to ${most}`)
    }
    return value
  }
}

function boolean(text: string): boolean {
  const lower = text.toLowerCase()
  if (lower === 'true' || lower === '1') return true
  if (lower === 'false' || lower === '0') return false
  throw new Error('is not true or false')
}

function oneOf<const Choice extends string>(choices: readonly Choice[]): (text: string) => Choice {
  return (text) => {
    const choice = choices.find((each) => each === text)
    if (choice === undefined) throw new Error(`is not one of ${choices.join(', ')}`)
    return choice
  }
}

function hostNames(text: string): readonly string[] {
  const names = text.split(',').map((name) => name.trim())
  if (!names.every((name) => /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/i.test(name))) {
    throw new Error('is not a list of host names like db.example.org,vectors.example.org')
  }
  return names
}

/** As browsers send them: no path, no default port. There is no wildcard, because an open service has nothing else to go by. */
function origins(text: string): readonly string[] {
  const names = text.split(',').map((name) => name.trim())
  if (!names.every((name) => /^https?:/.test(name) && URL.canParse(name) && new URL(name).origin === name)) {
    throw new Error('is not a list of origins like https://app.example.org,http://localhost:5173')
  }
  return names
}

/** One that nobody guesses. */
function clusterSecret(text: string): string {
  if (text.length < 16) throw new Error('has fewer than 16 characters')
  return text
}

/** Part of the names of streams and subjects of NATS. */
function clusterName(text: string): string {
  if (!/^[A-Za-z0-9_-]{1,32}$/.test(text)) throw new Error('is not 1 to 32 letters, digits, - or _')
  return text
}

function urls(protocols: readonly string[]): (text: string) => readonly string[] {
  return (text) => {
    const list = text.split(',').map((url) => url.trim())
    const isUrl = (url: string): boolean => URL.canParse(url) && protocols.includes(new URL(url).protocol)
    if (!list.every(isUrl))
      throw new Error(`is not a list of URLs that start with ${protocols.join('// or ')}//`)
    return list
  }
}

/** A key travels as a header value: visible ASCII, so that every client can send it. */
function headerValue(text: string): string {
  if (!/^[\x21-\x7e]+$/.test(text)) throw new Error('has characters other than visible ASCII')
  return text
}
