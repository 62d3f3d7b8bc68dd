import { createLogger, type Logger } from '../base/log.ts'
import type { Config } from '../config.ts'

/** Creates the logger from the settings. */
export function loggerOf({ logLevel, logFormat }: Config): Logger {
  const pretty = logFormat === 'auto' ? process.stdout.isTTY : logFormat === 'pretty'
  return createLogger({ level: logLevel, pretty })
}
