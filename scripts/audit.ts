/**
 * Asks npm for known vulnerabilities of everything that reaches users: `npm run audit`. Each lock file has packages of its
 * own. Those of the service are the ones that it runs on. The console is built from development packages, and users of an
 * integration bring its peers, which are development packages here: so all of those count.
 */
import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { npmCommand } from './npm-command.ts'

/** The answer of `npm audit --json`, judged. */
export interface AuditVerdict {
  readonly outcome: 'sound' | 'vulnerable' | 'unknown'
  readonly text: string
}

/** A lock file, by its directory, and how npm is asked about it. */
export interface AuditedLock {
  readonly directory: string
  readonly options: readonly string[]
}

const root = join(import.meta.dirname, '..')

/** The locks that are audited. What only measures (bench) or tests (clients/typescript/runtimes) reaches nobody. */
export function auditedLocks(): readonly AuditedLock[] {
  const whole = globSync('{console,integrations/*}/package-lock.json', { cwd: root }).map(dirname)
  return [
    { directory: '.', options: ['--omit=dev'] },
    ...whole.sort().map((directory) => ({ directory, options: [] })),
  ]
}

/** A registry without audits, as many mirrors are, proves nothing either way: the verdict says so. */
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

/** Needs the lock file only: nothing has to be installed. */
async function audit({ directory, options }: AuditedLock): Promise<AuditVerdict> {
  const [command, args] = npmCommand(['audit', '--json', '--package-lock-only', ...options])
  const answer = await new Promise<string>((resolve) => {
    // npm ends with 1 when it finds something; its answer decides.
    execFile(command, args, { cwd: join(root, directory) }, (_error, stdout) => resolve(stdout))
  })
  return verdictOf(answer)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  for (const lock of auditedLocks()) {
    const { outcome, text } = await audit(lock)
    console.log(`${lock.directory === '.' ? 'service' : lock.directory}: ${text}`)
    if (outcome === 'vulnerable') process.exitCode = 1
  }
}
