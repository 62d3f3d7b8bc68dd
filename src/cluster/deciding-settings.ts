import type { Logger } from '../base/log.ts'
import type { ServedData } from '../collections/served-data.ts'
import type { SharedDocuments } from './commit-log.ts'
import { announcedIn, toJson } from './json-documents.ts'
import { pause } from './pause.ts'

/**
 * The settings that decide what a record of the log changes, by name. Nodes with different values would store different
 * points, and nobody could tell which ones are right.
 */
export type DecidingSettings = Readonly<Record<string, DecidingSetting>>

export interface DecidingSetting {
  /** Null: not set. */
  readonly value: number | null
  /** Whether a node that has not set it gets this value from the log. */
  readonly isLogged?: boolean
}

/** The part of a node's announcement that is about its settings. Nodes of earlier versions announce none. */
export interface SettingsNote {
  readonly settings?: DecidingSettings
}

/** The settings of this node. While its data are not open, those that they decide are left out. */
export function decidingSettings(data: Pick<ServedData, 'opened' | 'storeOptions'>): DecidingSettings {
  const { maxIdempotencyKeys = null, maxIdempotencyBytes = null } = data.storeOptions
  const { main } = data.opened ?? {}
  return {
    MAX_IDEMPOTENCY_KEYS: { value: maxIdempotencyKeys },
    MAX_IDEMPOTENCY_BYTES: { value: maxIdempotencyBytes },
    ...(main && { DIMENSION: { value: main.dimension ?? null, isLogged: main.sequence > 0 } }),
  }
}

/** The first setting that two nodes have different values of; undefined: none. A name that one lacks is not compared. */
function differenceBetween(own: DecidingSettings, other: DecidingSettings): string | undefined {
  return Object.keys(own).find((name) => {
    const [here, there] = [own[name], Object.hasOwn(other, name) ? other[name] : undefined]
    if (here === undefined || there === undefined || here.value === there.value) return false
    const isLogged = here.value === null ? there.isLogged : there.value === null && here.isLogged
    return isLogged !== true
  })
}

/** Says how the settings of a node differ from those of other nodes; undefined: they do not. */
export function settingsFault(
  node: string,
  own: DecidingSettings,
  announced: ReadonlyMap<string, SettingsNote>,
): string | undefined {
  for (const [name, { settings = {} }] of announced) {
    const setting = name === node ? undefined : differenceBetween(own, settings)
    if (setting === undefined) continue
    const [here, there] = [own[setting]!, settings[setting]!].map(({ value }) => value ?? 'not set')
    return `${setting} is ${here} on node ${node} and ${there} on node ${name}: nodes with different values would store different points`
  }
  return undefined
}

export interface SettingsCheck {
  readonly documents: SharedDocuments
  readonly node: string
  /** What the node announces. */
  readonly describe: () => SettingsNote
  readonly logger: Logger
  readonly signal: AbortSignal
  /** How long the announcement of a node remains after it has stopped. */
  readonly announcementMs?: number | undefined
}

/**
 * Compares the settings of a node that starts with those of the running nodes. Of nodes that start at the same time, at
 * least one notices the difference, because each of them announces itself first.
 *
 * @throws Error that names the setting, its values, and what to do
 */
export async function checkSettings(check: SettingsCheck): Promise<void> {
  const { documents, node, describe, logger, signal, announcementMs = 5_000 } = check
  const untilMs = performance.now() + announcementMs + 1_000
  for (let attempt = 1; ; attempt += 1) {
    const own = describe()
    await documents.announce(node, toJson(own))
    const fault = settingsFault(node, own.settings ?? {}, await announcedIn<SettingsNote>(documents))
    if (fault === undefined || signal.aborted) return
    if (performance.now() >= untilMs)
      throw new Error(`${fault}. Set it alike; to change it, stop all nodes first`)
    if (attempt === 1) logger.warn(`${fault}. Waiting in case the other node has just stopped`)
    await pause(500, signal)
  }
}
