/**
 * `npm run audit` asks npm for known vulnerabilities in everything that reaches users. Each lock file is audited
 * separately, with its development packages: those of the service are bundled with it, the console is built from its
 * own, and users of an integration install its peer dependencies, which are development packages here.
 */
import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { npmCommand } from './npm-command.ts'

/** The verdict on the output of `npm audit --json`. */
export interface AuditVerdict {
  readonly outcome: 'sound' | 'vulnerable' | 'unknown'
  readonly text: string
}

const root = join(import.meta.dirname, '..')

/**
 * The directories of the lock files to audit. Benchmarks (bench) and tests (clients/typescript/runtimes, test/node-26) do
 * not reach users.
 */
export function auditedLocks(): readonly string[] {
  return globSync('{.,console,integrations/*}/package-lock.json', { cwd: root }).map(dirname).sort()
}

/** Judges an audit. A registry without audits, such as many mirrors, proves nothing, so the outcome is unknown. */
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

/** Audits a lock file. The packages need not be installed. */
async function audit(directory: string): Promise<AuditVerdict> {
  const [command, args] = npmCommand(['audit', '--json', '--package-lock-only'])
  const answer = await new Promise<string>((resolve) => {
    // npm exits with 1 if it finds something. The verdict depends on its output alone.
    execFile(command, args, { cwd: join(root, directory) }, (_error, stdout) => resolve(stdout))
  })
  return verdictOf(answer)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  for (const directory of auditedLocks()) {
    const { outcome, text } = await audit(directory)
    console.log(`${directory === '.' ? 'service' : directory}: ${text}`)
    if (outcome === 'vulnerable') process.exitCode = 1
  }
}
