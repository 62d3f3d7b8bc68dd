import type { Logger } from '../base/log.ts'
import type { Config, SettingSources } from '../config.ts'
import { startService } from '../main.ts'
import { loggerOf } from '../service/logger.ts'
import type { Environment } from './arguments.ts'
import { startWarnings } from './start-warnings.ts'
import { stopSignal } from './stop-signal.ts'

/**
 * Serves in the foreground until SIGTERM or SIGINT, then drains and ends the process. A second signal ends it
 * immediately.
 *
 * @throws the errors of `startService`, and errors that make the stored data unusable
 */
export async function serve(
  config: Config,
  sources: SettingSources,
  environment: Environment,
): Promise<void> {
  const stop = stopSignal()
  const logger = loggerOf(config)
  for (const warning of await startWarnings(config, environment)) warn(logger, warning)
  const service = await startService(config, { logger, sources })
  try {
    await Promise.race([service.ready, stop])
    const signal = await stop
    logger.info(
      { signal, timeoutMs: config.shutdownTimeoutMs },
      'stopping: running requests may end; a second signal stops at once',
    )
  } finally {
    // Ending the process is safe: all acknowledged writes are on disk, and the index on disk is only a cache.
    const overdue = setTimeout(() => {
      logger.error(
        { timeoutMs: config.shutdownTimeoutMs },
        'stopping took too long: the process ends as it is',
      )
      process.exit(1)
    }, config.shutdownTimeoutMs + closingMs)
    await service.close()
    clearTimeout(overdue)
  }
  logger.info('stopped')
  // Everything is closed, but a gRPC client that does not disconnect would keep the process running: after a session's
  // GOAWAY, Node waits until the other side closes the socket, whatever is destroyed after that.
  process.exit()
}

/** Writes a warning to the log, and to standard error if the log is not visible on the terminal. */
function warn(logger: Logger, warning: string): void {
  logger.warn(warning)
  const isSeenInLog = process.stdout.isTTY && logger.isLevelEnabled('warn')
  if (!isSeenInLog) console.error(`vicinal: WARNING: ${warning}`)
}

/** How long closing may take after all requests have ended or were aborted. */
const closingMs = 30_000
