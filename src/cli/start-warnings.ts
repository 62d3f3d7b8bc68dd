import { isLoopback } from '../base/ports.ts'
import { editDistance } from '../base/spelling.ts'
import { type Config, isHttpOpen } from '../config.ts'
import { settingRows } from '../settings/table.ts'
import type { Environment } from './arguments.ts'

/** Warnings before the service starts: about misspelt settings, and about an open HTTP port. */
export async function startWarnings(config: Config, environment: Environment): Promise<readonly string[]> {
  const ignored = misspeltSettings(environment).map(
    (variable) => `${variable} is not a setting and has no effect: vicinal serve --help lists all settings`,
  )
  return (await isOpenToOthers(config)) ? [...ignored, openWarning(config)] : ignored
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

/** Whether others can reach HTTP without a key. A host without an address makes the start fail with its own message. */
async function isOpenToOthers(config: Config): Promise<boolean> {
  if (config.disableHttp || !isHttpOpen(config)) return false
  return !(await isLoopback(config.httpHost).catch(() => true))
}

function openWarning({ httpHost }: Config): string {
  return `HTTP IS OPEN: it listens on ${httpHost} (HTTP_HOST) without a key, so anyone who can reach it can read, change and delete everything. Set HTTP_API_KEY, or HTTP_HOST=127.0.0.1 behind a proxy that asks for a key, or DISABLE_HTTP=true`
}
