import { isLoopback } from '../base/ports.ts'
import { type Config, isHttpOpen } from '../config.ts'
import { nearSettings } from './near-settings.ts'
import { removedSettings, removedSettingsIn } from './removed-settings.ts'
import type { Environment } from './usage.ts'

/** What an operator should know before the service starts: settings that have no effect, and doors that are open. */
export async function startWarnings(config: Config, environment: Environment): Promise<readonly string[]> {
  const ignored = [
    ...nearSettings(environment).map(
      ({ variable, setting }) =>
        `${variable} is not a setting and has no effect: did you mean ${setting}? (vicinal serve --help lists all)`,
    ),
    ...removedSettingsIn(environment).map(
      (variable) => `${variable} is not a setting any more and has no effect: ${removedSettings[variable]}`,
    ),
  ]
  return (await isOpenToOthers(config)) ? [...ignored, openWarning(config)] : ignored
}

/** A host without an address stops the start, which says so itself. */
async function isOpenToOthers(config: Config): Promise<boolean> {
  if (config.disableHttp || !isHttpOpen(config)) return false
  return !(await isLoopback(config.httpHost).catch(() => true))
}

function openWarning({ httpHost }: Config): string {
  return `HTTP IS OPEN: it listens on ${httpHost} (HTTP_HOST) without a key, so whoever reaches it can read, change and delete everything. Set HTTP_API_KEY, or HTTP_HOST=127.0.0.1 behind a proxy that asks for a key, or DISABLE_HTTP=true`
}
