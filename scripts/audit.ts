import { execFile } from 'node:child_process'
import { pathToFileURL } from 'node:url'

/** What an answer of `npm audit --json` comes to. */
export interface AuditVerdict {
  readonly outcome: 'sound' | 'vulnerable' | 'unknown'
  readonly text: string
}

/**
 * Known vulnerabilities of the packages that the service runs on. A registry that has no audit, as mirrors
 * often have not, tells nothing either way, and is said so.
 */
export function verdictOf(answer: string): AuditVerdict {
  if (!answer.trimStart().startsWith('{'))
    return { outcome: 'unknown', text: `no audit: npm said "${answer}"` }
  const { metadata, vulnerabilities, message } = JSON.parse(answer) as AuditAnswer
  if (metadata === undefined) return { outcome: 'unknown', text: `no audit: ${message ?? answer}` }
  const { high, critical } = metadata.vulnerabilities
  if (high + critical === 0) return { outcome: 'sound', text: 'no package with a high or critical advisory' }
  const names = Object.entries(vulnerabilities ?? {})
    .filter(([, { severity }]) => severity === 'high' || severity === 'critical')
    .map(([name, { severity }]) => `${name} (${severity})`)
  return { outcome: 'vulnerable', text: `packages with advisories: ${names.join(', ')}` }
}

interface AuditAnswer {
  readonly message?: string
  readonly metadata?: { readonly vulnerabilities: { readonly high: number; readonly critical: number } }
  readonly vulnerabilities?: Readonly<Record<string, { readonly severity: string }>>
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  // npm ends with 1 when it finds something, and its answer is what counts.
  execFile('npm', ['audit', '--json', '--omit=dev'], (_error, answer) => {
    const { outcome, text } = verdictOf(answer)
    console.log(text)
    process.exitCode = outcome === 'vulnerable' ? 1 : 0
  })
}
