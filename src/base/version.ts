import { readFileSync } from 'node:fs'

/** Returns the version of this program. package.json is next to src/ in a checkout and next to dist/ in the package. */
export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
