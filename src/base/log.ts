import { type Logger, type LoggerOptions, pino } from 'pino'

export type { Logger }

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/**
 * The process's logger: JSON lines on standard output, or coloured lines for people when `pretty`.
 * Keys never belong in a log: anything under these names is replaced before it is written.
 */
export function createLogger(options: { readonly level: LogLevel; readonly pretty: boolean }): Logger {
  return pino({
    ...common(options.level),
    ...(options.pretty
      ? {
          transport: {
            target: 'pino-pretty',
            options: { translateTime: 'HH:MM:ss.l', ignore: 'pid,hostname', singleLine: true },
          },
        }
      : { timestamp: pino.stdTimeFunctions.isoTime }),
  })
}

/** The logger of a thread that has another write its lines. */
export function createRelayedLogger(level: LogLevel, relay: (line: string) => void): Logger {
  return pino({ ...common(level), timestamp: false }, { write: relay })
}

/** Writes a line that another thread's logger has made. */
export function relayLine(logger: Logger, line: string): void {
  const { level, msg, ...fields } = JSON.parse(line) as { level: number; msg?: string }
  const name = logger.levels.labels[level] as Exclude<LogLevel, 'silent'>
  logger[name](fields, msg)
}

function common(level: LogLevel): LoggerOptions {
  return {
    level,
    base: null,
    redact: {
      paths: ['authorization', '*.authorization', 'req.headers.authorization', 'key', '*.apiKey'],
      censor: '[redacted]',
    },
  }
}
