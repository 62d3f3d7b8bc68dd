import type { Config } from '../config.ts'
import { loggerOf, startService } from '../main.ts'
import { stopSignal } from './stop-signal.ts'

/**
 * Serves in the foreground until SIGTERM or SIGINT, then drains and ends the process. A second signal ends
 * it at once.
 *
 * @throws what `startService` throws, what makes the stored data unusable, and what ended a part of the service
 */
export async function serve(config: Config): Promise<void> {
  const stop = stopSignal()
  const logger = loggerOf(config)
  const service = await startService(config, { logger })
  try {
    await Promise.race([service.ready, stop, service.failed])
    const signal = await Promise.race([stop, service.failed])
    logger.info(
      { signal, timeoutMs: config.shutdownTimeoutMs },
      'stopping: running requests may end; a second signal stops at once',
    )
  } finally {
    await service.close()
  }
  logger.info('stopped')
  // Everything is closed, and yet a gRPC client that does not hang up would keep the process: once a session
  // has said goodbye, Node waits for the other side to close the socket, whatever is destroyed after that.
  process.exit()
}
