/** Where the value of a setting comes from; undefined where that is not known, as for a service that a program starts. */
export type SettingSource = 'default' | 'environment' | 'flag' | undefined

/** A setting that is in force, for people. */
export interface SettingInfo {
  /** Of the environment variable. */
  readonly name: string
  readonly flag: string
  /** Title of the settings that it belongs to. */
  readonly group: string
  /** Null where none is set; of a secret only that it is set. */
  readonly value: string | number | boolean | null
  readonly source: SettingSource
  /** The default as the docs print it. */
  readonly default: string
  readonly isSecret: boolean
  readonly doc: string
}
