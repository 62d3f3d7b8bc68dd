import { isLoopback } from '../base/ports.ts'
import { type Config, isHttpOpen } from '../config.ts'
import type { Environment } from './arguments.ts'
import { nearSettings } from './near-settings.ts'
import { removedSettings, removedSettingsIn } from './removed-settings.ts'

/** Warnings before the service starts: about settings without effect, and about an open HTTP port. */
export async function startWarnings(config: Config, environment: Environment): Promise<readonly string[]> {
  const ignored = [
    ...nearSettings(environment).map(
      ({ variable, setting }) =>
        `${variable} is not a setting and has no effect: did you mean ${setting}? (vicinal serve --help lists all)`,
    ),
    ...removedSettingsIn(environment).map(
      (variable) => `${variable} is no longer a setting and has no effect: ${removedSettings[variable]}`,
    ),
  ]
  return (await isOpenToOthers(config)) ? [...ignored, openWarning(config)] : ignored
}

/** Whether others can reach HTTP without a key. A host without an address makes the start fail with its own message. */
async function isOpenToOthers(config: Config): Promise<boolean> {
  if (config.disableHttp || !isHttpOpen(config)) return false
  return !(await isLoopback(config.httpHost).catch(() => true))
}

function openWarning({ httpHost }: Config): string {
  return `HTTP IS OPEN: it listens on ${httpHost} (HTTP_HOST) without a key, so anyone who can reach it can read, change and delete everything. Set HTTP_API_KEY, or HTTP_HOST=127.0.0.1 behind a proxy that asks for a key, or DISABLE_HTTP=true`
}
