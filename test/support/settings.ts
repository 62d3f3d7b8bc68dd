import { type Config, type Limits, limits, readConfig } from '../../src/config.ts'

/** Settings by the names of their variables; limits, and the size from which graphs are built, by their own names. */
export type TestSettings = Readonly<Record<string, string | number>>

/** The configuration of a service with these settings and limits. */
export function testConfig(settings: TestSettings): Config {
  const entries = Object.entries(settings)
  const isOwn = ([name]: readonly [string, unknown]): boolean =>
    Object.hasOwn(limits, name) || name === 'graphBytesMin'
  const changed = entries.filter(isOwn) as [keyof Limits | 'graphBytesMin', number][]
  const environment = entries.filter((entry) => !isOwn(entry)) as [string, string][]
  return { ...readConfig(Object.fromEntries(environment)), ...Object.fromEntries(changed) }
}
