import { AccessSettings } from './access-settings.ts'
import { BoundSettings } from './bound-settings.ts'
import { ClusterBoundSettings } from './cluster-bound-settings.ts'
import { ClusterCredentialSettings } from './cluster-credential-settings.ts'
import { ClusterSettings } from './cluster-settings.ts'
import { EmbeddingSettings } from './embedding-settings.ts'
import { EssentialSettings } from './essential-settings.ts'
import { OperationSettings } from './operation-settings.ts'
import type { Row, Setting } from './row.ts'
import { SearchSettings } from './search-settings.ts'

/**
 * Every setting of the server in one table. Start-up validation, `vicinal serve --help` and the settings reference in
 * docs/ are all made from it, so they cannot disagree.
 *
 * The groups are classes because a class field can declare its type. That type is checked, and it is the only place
 * that defines the value of a setting: `Config` follows from it.
 */
type Rows = EssentialSettings &
  AccessSettings &
  SearchSettings &
  EmbeddingSettings &
  BoundSettings &
  OperationSettings &
  ClusterSettings &
  ClusterCredentialSettings &
  ClusterBoundSettings

export interface SettingGroup {
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
    about: 'For inserts and searches with texts in place of vectors.',
    rows: new EmbeddingSettings(),
  },
  {
    title: 'Bounds',
    about: 'What one request, and all requests in progress, may take; beyond that, requests are refused.',
    rows: new BoundSettings(),
  },
  {
    title: 'Operation',
    about: 'What operators see of the service, and how it stops.',
    rows: new OperationSettings(),
  },
  {
    title: 'Cluster',
    about: 'For nodes of a cluster: which cluster, and how other nodes reach this one.',
    rows: new ClusterSettings(),
  },
  {
    title: 'Cluster: credentials',
    about: 'How a node authenticates itself to the log servers and the other nodes.',
    rows: new ClusterCredentialSettings(),
  },
  {
    title: 'Cluster: bounds',
    about: 'What the log and the calls between nodes may take.',
    rows: new ClusterBoundSettings(),
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
