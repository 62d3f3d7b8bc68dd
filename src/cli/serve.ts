import { createLogger, type Logger } from '../base/log.ts'
import { editDistance } from '../base/spelling.ts'
import { type Config, openHttpWarning, type SettingSources } from '../config.ts'
import { startService } from '../main.ts'
import { settingRows } from '../settings/table.ts'
import { type Environment, stopSignal } from './arguments.ts'

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
  const logger = createLogger({ level: config.logLevel })
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

/** Warnings before the service starts: about misspelt settings, and about an open HTTP port. */
export async function startWarnings(config: Config, environment: Environment): Promise<readonly string[]> {
  const ignored = misspeltSettings(environment).map(
    (variable) => `${variable} is not a setting and has no effect: vicinal serve --help lists all settings`,
  )
  const open = await openHttpWarning(config)
  return open === undefined ? ignored : [...ignored, open]
}

/**
 * Finds variables whose names differ from a setting's by one or two letters. The service would ignore them: with
 * `HTTP_APIKEY` it would be open, although its operator believes that it has a key.
 */
export function misspeltSettings(environment: Environment): string[] {
  return Object.entries(environment).flatMap(([variable, value]) => {
    if (!value || names.includes(variable) || wellKnown.has(variable.toUpperCase())) return []
    // Kubernetes sets variables like GRPC_PORT for every service in a namespace.
    if (/^(tcp|udp|sctp):\/\//.test(value)) return []
    return lettersOfNames.some((letters) => isNear(lettersOf(variable), letters)) ? [variable] : []
  })
}

const names: readonly string[] = settingRows.map(([, { env }]) => env)
const lettersOfNames: readonly string[] = names.map(lettersOf)

/** Variables of other programs whose names happen to be similar to a setting's. */
const wellKnown: ReadonlySet<string> = new Set(['HTTP_PROXY', 'HTTPS_PROXY', 'HTTPS_PORT', 'HTTPS_HOST'])

function lettersOf(name: string): string {
  return name.toUpperCase().replaceAll(/[_-]/g, '')
}

function isNear(letters: string, meant: string): boolean {
  // For names with fewer letters, a distance of two also reaches unrelated names.
  const distanceMax = meant.length < 10 ? 1 : 2
  // The distance is at least the difference of the lengths: this check saves nearly all of the work.
  const couldBeNear = Math.abs(letters.length - meant.length) <= distanceMax
  return couldBeNear && editDistance(letters, meant) <= distanceMax
}
