/** The values of the setting LOG_LEVEL, the one with the fewest lines first; `silent`, at the end, logs nothing. */
export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]
