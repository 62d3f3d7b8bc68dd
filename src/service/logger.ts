import { createLogger, type Logger } from '../base/log.ts'
import type { Config } from '../config.ts'

/** Creates the logger: pretty on a terminal, JSON lines elsewhere. */
export function loggerOf({ logLevel }: Config): Logger {
  return createLogger({ level: logLevel, pretty: process.stdout.isTTY })
}
