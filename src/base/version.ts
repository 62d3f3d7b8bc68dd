import { readFileSync } from 'node:fs'

/** Of this program. package.json is above src/ in a checkout and above dist/ in the package. */
export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
