import type { Config } from '../config.ts'
import { startService } from '../main.ts'

/**
 * Serves in the foreground until SIGTERM or SIGINT, then drains and returns. A second signal ends the
 * process at once.
 *
 * @throws what `startService` throws, and what makes the stored data unusable
 */
export async function serve(config: Config): Promise<void> {
  const stopped = signalled()
  const service = await startService(config)
  try {
    await service.ready
    await stopped
  } finally {
    await service.close()
  }
}

const signals = { SIGINT: 130, SIGTERM: 143 } as const

function signalled(): Promise<void> {
  return new Promise((resolve) => {
    for (const [signal, exitCode] of Object.entries(signals)) {
      process.once(signal, () => {
        process.on(signal, () => process.exit(exitCode))
        resolve()
      })
    }
  })
}
