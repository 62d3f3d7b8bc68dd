import { type Logger, pino } from 'pino'
import type { LogLevel } from './setting-info.ts'

export type { Logger }

/**
 * Creates the process's logger: JSON lines on standard output, or coloured lines for people when `pretty`. API keys
 * must never be in a log, so values with these names are replaced before they are written.
 */
export function createLogger(options: {
  readonly level: LogLevel
  /** Absent: on a terminal. */
  readonly pretty?: boolean
  /** Receives the lines in place of standard output: see `logLine`. */
  readonly write?: (line: string) => void
}): Logger {
  if (options.write !== undefined) {
    return pino({ level: options.level, base: null, timestamp: false }, { write: options.write })
  }
  return pino({
    level: options.level,
    base: null,
    redact: {
      paths: ['authorization', '*.authorization', 'req.headers.authorization', 'key', '*.apiKey'],
      censor: '[redacted]',
    },
    ...((options.pretty ?? process.stdout.isTTY)
      ? {
          transport: {
            target: 'pino-pretty',
            options: { translateTime: 'HH:MM:ss.l', ignore: 'pid,hostname', singleLine: true },
          },
        }
      : { timestamp: pino.stdTimeFunctions.isoTime }),
  })
}

/** Logs a line that the logger of another thread has written. */
export function logLine(logger: Logger, line: string): void {
  const { level, msg, ...fields } = JSON.parse(line) as { readonly level: number; readonly msg?: string }
  logger[pino.levels.labels[level] as LogLevel](fields, msg)
}
