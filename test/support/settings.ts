import { type Config, readConfig } from '../../src/config.ts'
import { type Limits, limits } from '../../src/settings/limits.ts'

/** Settings by the names of their variables, and limits by their own names. */
export type TestSettings = Readonly<Record<string, string | number>>

/** The configuration of a service with these settings and limits. */
export function testConfig(settings: TestSettings): Config {
  const entries = Object.entries(settings)
  const changed = entries.filter(([name]) => Object.hasOwn(limits, name)) as [keyof Limits, number][]
  const environment = entries.filter(([name]) => !Object.hasOwn(limits, name)) as [string, string][]
  return { ...readConfig(Object.fromEntries(environment)), ...Object.fromEntries(changed) }
}
