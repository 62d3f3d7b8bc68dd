import { availableParallelism, hostname } from 'node:os'
import { dimensionMax } from '../base/point.ts'
import { type AuditLevel, auditLevels, type LogLevel, logLevels } from '../base/setting-info.ts'
import {
  boolean,
  bytes,
  clusterName,
  endpointUrl,
  integer,
  key,
  mebibyte,
  milliseconds,
  oneOf,
  origins,
  port,
  type Row,
  type Setting,
  share,
  text,
  urls,
} from './kinds.ts'

/**
 * Every setting of the server in one table. Start-up validation, `vicinal serve --help` and the settings reference in
 * docs/ are all made from it, so they cannot disagree. What only tests set is in `limits` of config.ts.
 *
 * The groups are classes because a class field can declare its type. That type is checked, and it is the only place
 * that defines the value of a setting: `Config` follows from it.
 */
class EssentialSettings {
  readonly dataDir: Row<string> = text('path', {
    default: './data',
    doc: 'Directory of the stored data; created with mode 0700 if it is missing.',
  })

  readonly grpcHost: Row<string> = text('host', {
    default: 'localhost',
    doc: 'Address the gRPC server listens on. 0.0.0.0 listens on all: the transport is plaintext without CERTS_DIR.',
  })

  readonly grpcPort: Row<number> = port({
    default: 50051,
    doc: 'gRPC port; 0 takes a free one and logs it.',
  })

  readonly grpcRootPassword: Row<string | undefined> = key({
    defaultText: 'a random key in DATA_DIR/api-key',
    doc: 'API key that gRPC callers present as `authorization` metadata. Prefer the environment: a flag shows in the process list.',
  })

  readonly httpHost: Row<string> = text('host', {
    default: '127.0.0.1',
    doc: 'Address the HTTP server listens on. HTTP has no authentication unless HTTP_API_KEY or API_KEYS_FILE is set.',
  })

  readonly httpPort: Row<number> = port({
    default: 3000,
    doc: 'HTTP port; 0 takes a free one and logs it.',
  })

  readonly httpApiKey: Row<string | undefined> = key({
    defaultText: 'none: HTTP is open',
    doc: 'When set, HTTP requires it as `authorization` on everything but /health, /readyz, / and the docs. Prefer the environment: a flag shows in the process list.',
  })

  readonly maxMemoryBytes: Row<number> = bytes(0, Number.MAX_SAFE_INTEGER, {
    default: 0,
    defaultText: '0 (no limit)',
    doc: 'Memory that points may take: vectors, index, ids, attributes, and 512 KiB for each open named collection. Beyond it, collections that nobody uses are closed; an insert for which that makes too little room is refused. Stored points are always loaded. The process takes some 200 MiB in addition. 0 sets no limit.',
  })

  readonly logLevel: Row<LogLevel> = oneOf(logLevels, {
    default: 'info',
    doc: 'Lowest severity of log lines that are written.',
  })
}

class AccessSettings {
  readonly apiKeysFile: Row<string | undefined> = text('file', {
    default: undefined,
    doc: 'File with further keys for both transports. Each line has a role (`read`, `write` or `admin`), a name, a key or its hash, and perhaps what the key is restricted to. Other users must not be able to read the file (mode 600 or 640). It is read again within a second of a change. With it, HTTP requires a key, too.',
  })

  readonly audit: Row<AuditLevel> = oneOf(auditLevels, {
    default: 'off',
    doc: 'Which calls leave a line in the files of `DATA_DIR/audit`, who made it and whether it was allowed: `writes`: changes, snapshots, what only admins may do, and every call without the right to it; `all`: reads, too.',
  })

  readonly certsDir: Row<string | undefined> = text('directory', {
    default: undefined,
    doc: 'Directory of certificates, as PEM files. With `server/tls.crt` and `server/tls.key`, both ports speak TLS; with `server/clients.crt` too, clients must present a certificate of the authorities in it. These are read again within a second of a change. `nats/` has what a node of a cluster needs for the log servers, each file only if they require it: `ca.crt`, their authority, with which the connection uses TLS; `tls.crt` and `tls.key`; `nats.creds`, a JWT and a seed as `nsc` writes them.',
  })

  readonly disableHttp: Row<boolean> = boolean({
    default: false,
    doc: '`true` opens no HTTP port.',
  })

  readonly httpOpen: Row<boolean> = boolean({
    default: false,
    doc: '`true` lets HTTP listen beyond loopback without a key: anyone who can reach it can read, change and delete everything. Without it, such a service does not start.',
  })

  readonly corsOrigins: Row<readonly string[]> = origins({
    default: [],
    doc: 'Origins of web pages, separated by commas, whose scripts may call HTTP from a browser. They can do whatever the service allows: everything, while it has no key. Without a key, HTTP on loopback also answers to the host names of these origins, besides addresses and localhost; all other names are refused, so that no web page can reach the service by a name that points here (DNS rebinding).',
  })

  readonly consoleImageOrigins: Row<readonly string[]> = origins({
    default: [],
    doc: 'Origins, separated by commas, from which the console may load images, for points of type Image whose content is an address. Without it, the console shows only images that are in the content itself (data:), and loads nothing from elsewhere. The hosts of these origins learn which images are viewed.',
  })
}

class SearchSettings {
  readonly dimension: Row<number | undefined> = integer(1, dimensionMax, {
    default: undefined,
    defaultText: 'fixed by the first insert',
    doc: `Length of every stored and query vector, 1..${dimensionMax}. It is stored with the data; the service does not start with a different one, nor a node whose cluster was begun with another or without.`,
  })

  readonly hnswEf: Row<number> = integer(1, 1_000_000, {
    default: 128,
    doc: 'Default search breadth ef: a larger one finds more of the true neighbours and takes longer.',
  })

  readonly recallTarget: Row<number> = share(0.5, 1, {
    default: 0.98,
    doc: 'Share of the ten nearest that a search at the default ef has to find, 0.5..1. It is measured on stored points for each metric. A graph that falls short is searched more widely; if it still falls short, the exact scan replaces it.',
  })

  readonly vectorsOnDisk: Row<boolean> = boolean({
    default: false,
    doc: 'Keeps only codes and links in memory, a quarter of the vectors or less, and reads the vectors that a search needs from disk: for collections larger than memory.',
  })

  readonly threads: Row<number> = integer(1, 256, {
    default: availableParallelism(),
    defaultText: 'one per core',
    doc: 'Worker threads that search, and as many that link new points into the index, at a lower priority. On Linux, from 4 on, up to as many more serve requests.',
  })
}

class EmbeddingSettings {
  readonly embeddingsUrl: Row<string | undefined> = endpointUrl({
    defaultText: 'none: texts are not embedded',
    doc: 'Base URL of an endpoint that embeds texts like the API of OpenAI, such as `http://127.0.0.1:8080/v1`; `/embeddings` is added. With it, inserts and searches may have a text in place of a vector. Needs EMBEDDINGS_MODEL.',
  })

  readonly embeddingsModel: Row<string | undefined> = text('name', {
    default: undefined,
    doc: 'Name of the model, as the endpoint knows it. All vectors of a collection must come from one model: after a change, store them again.',
  })

  readonly embeddingsApiKey: Row<string | undefined> = key({
    doc: 'Key that the endpoint requires, sent as `authorization: Bearer`. Prefer the environment: a flag shows in the process list.',
  })

  readonly rerankUrl: Row<string | undefined> = endpointUrl({
    defaultText: 'none: nothing is reranked',
    doc: 'Base URL of an endpoint that ranks texts for a query like the API of Cohere, Jina or vLLM, such as `https://api.jina.ai/v1`; `/rerank` is added. With it, searches may ask to `rerank`. Needs RERANK_MODEL.',
  })

  readonly rerankModel: Row<string | undefined> = text('name', {
    default: undefined,
    doc: 'Name of the reranking model, as that endpoint knows it.',
  })

  readonly rerankApiKey: Row<string | undefined> = key({
    doc: 'Key that the reranking endpoint requires, as EMBEDDINGS_API_KEY.',
  })
}

class BoundSettings {
  readonly maxLimit: Row<number> = integer(1, 1_000_000, {
    default: 16_384,
    doc: 'Largest `limit` that a search may request.',
  })

  readonly maxRequestBytes: Row<number> = bytes(1024, 1024 * mebibyte, {
    default: 64 * mebibyte,
    doc: 'Largest request on either transport.',
  })

  readonly maxBufferedBytes: Row<number> = bytes(1, 64 * 1024 * mebibyte, {
    default: 256 * mebibyte,
    doc: 'Memory for calls in progress. It limits each of three kinds separately: requests that are arriving, being decoded or searched for; changes that wait for the disk; and answers, from the first point that is read for them until clients have received them: while an answer is made, its points and its encoded form both count, two bytes for each character of a point. More is refused as overload. Of the requests and of the answers, three quarters are for those larger than 1 MiB. One of these is always accepted when there is no other.',
  })

  readonly shutdownTimeoutMs: Row<number> = milliseconds(0, 600_000, {
    default: 5_000,
    doc: 'Time that running requests have to end after SIGTERM or SIGINT. Idle HTTP connections stay open for a tenth of it, at most 2 s: requests that arrive on them are refused with 503, not cut off.',
  })
}

class ClusterSettings {
  readonly clusterNatsUrl: Row<readonly string[]> = urls(['nats:', 'tls:', 'http:', 'https:'], {
    default: [],
    defaultText: 'none: one node',
    secret: true,
    doc: 'Log servers of the cluster that this node belongs to, separated by commas, as in `nats://log1:4222,nats://log2:4222`. If the servers require a user and a password, put these before an `@`. `tls://` requires TLS. An address with `http://` or `https://` is the monitoring address of a log server; by default, these are port 8222 of the servers. At its start, a node asks each server whether it fsyncs every record, and refuses a server that does not. Prefer the environment to a flag.',
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
    defaultText: '3',
    doc: 'Nodes that hold each point, of as many nodes as there are. It counts for the first node of a cluster; `vicinal cluster replicas` changes the number later.',
  })

  readonly clusterLogBytes: Row<number> = bytes(256 * mebibyte, Number.MAX_SAFE_INTEGER, {
    default: 8 * 1024 * mebibyte,
    doc: 'Size of the log on each log server. The oldest records are discarded for new ones. A node that was away while more than this was written copies its data from another node. It must hold at least what is written while a node copies.',
  })
}

type Rows = EssentialSettings &
  AccessSettings &
  SearchSettings &
  EmbeddingSettings &
  BoundSettings &
  ClusterSettings

interface SettingGroup {
  readonly title: string
  /** What the group is for. */
  readonly about: string
  /** Rows by the names of their settings. */
  readonly rows: object
}

/** In the order of help and docs: first what most people need. */
export const settingGroups: readonly SettingGroup[] = [
  {
    title: 'Essentials',
    about: 'What most services set. All other settings have defaults that fit most services.',
    rows: new EssentialSettings(),
  },
  {
    title: 'Keys and access',
    about: 'Who else may call the service, and from where.',
    rows: new AccessSettings(),
  },
  {
    title: 'Search and index',
    about: 'How points are indexed and searched.',
    rows: new SearchSettings(),
  },
  {
    title: 'Embeddings',
    about: 'For inserts and searches with texts in place of vectors, and for searches that rerank.',
    rows: new EmbeddingSettings(),
  },
  {
    title: 'Bounds',
    about: 'What one request, and all requests in progress, may take; beyond that, requests are refused.',
    rows: new BoundSettings(),
  },
  {
    title: 'Cluster',
    about: 'For nodes of a cluster: which cluster, and how clients reach this node.',
    rows: new ClusterSettings(),
  },
]

export type SettingName = keyof Rows

export type Settings = { readonly [Name in SettingName]: Setting<Rows[Name]['default']> }

/** The settings with their names in the program, in the order of the table. */
export const settingRows: readonly (readonly [SettingName, Setting<unknown>])[] = settingGroups.flatMap(
  ({ title, rows }) =>
    Object.entries(rows as Readonly<Record<SettingName, Row<unknown>>>).map(
      ([name, row]) => [name as SettingName, { ...row, ...namesOf(name), group: title }] as const,
    ),
)

// TypeScript cannot tell that each entry has a value of its own type.
export const settings: Settings = Object.fromEntries(settingRows) as Settings

/** `hnswEf` is the variable HNSW_EF and the flag --hnsw-ef. */
function namesOf(name: string): Pick<Setting<unknown>, 'env' | 'flag'> {
  const flag = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  return { flag, env: flag.replaceAll('-', '_').toUpperCase() }
}
