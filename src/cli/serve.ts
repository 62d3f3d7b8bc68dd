import type { Logger } from '../base/log.ts'
import type { Config, SettingSources } from '../config.ts'
import { startService } from '../main.ts'
import { loggerOf } from '../service/logger.ts'
import { startWarnings } from './start-warnings.ts'
import { stopSignal } from './stop-signal.ts'
import type { Environment } from './usage.ts'

/**
 * Serves in the foreground until SIGTERM or SIGINT, then drains and ends the process. A second signal ends
 * it at once.
 *
 * @throws what `startService` throws, and what makes the stored data unusable
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
    // Whatever holds it up: all that was acknowledged is on disk, and the index there is a cache.
    setTimeout(() => {
      logger.error(
        { timeoutMs: config.shutdownTimeoutMs },
        'stopping took too long: the process ends as it is',
      )
      process.exit(1)
    }, config.shutdownTimeoutMs + closingMs).unref()
    await service.close()
  }
  logger.info('stopped')
  // Everything is closed, and yet a gRPC client that does not hang up would keep the process: once a session
  // has said goodbye, Node waits for the other side to close the socket, whatever is destroyed after that.
  process.exit()
}

/** In the log and before the eyes of whoever starts the service, where the log goes elsewhere. */
function warn(logger: Logger, warning: string): void {
  logger.warn(warning)
  const isSeenInLog = process.stdout.isTTY && logger.isLevelEnabled('warn')
  if (!isSeenInLog) console.error(`vicinal: WARNING: ${warning}`)
}

/** What closing may take once requests have ended, or have been ended. */
const closingMs = 5_000
