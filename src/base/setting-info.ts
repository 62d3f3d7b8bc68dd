/**
 * Where the value of a setting comes from; undefined if that is not known, as in a service started by a program.
 */
export type SettingSource = 'default' | 'environment' | 'flag' | undefined

/** A setting with its current value, for people. */
export interface SettingInfo {
  /** The environment variable. */
  readonly name: string
  readonly flag: string
  /** Title of its group of settings. */
  readonly group: string
  /** Null if not set. For a secret, only whether it is set. */
  readonly value: string | number | boolean | null
  readonly source: SettingSource
  /** The default as in the docs. */
  readonly default: string
  readonly isSecret: boolean
  readonly doc: string
}

/** The values of the setting LOG_LEVEL, the one with the fewest lines first; `silent`, at the end, logs nothing. */
export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/** The values of the setting AUDIT. */
export const auditLevels = ['off', 'writes', 'all'] as const
export type AuditLevel = (typeof auditLevels)[number]
