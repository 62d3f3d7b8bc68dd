import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { auditedLocks, verdictOf } from '../../scripts/audit.ts'

/** The part of npm 11's answer that the audit reads. */
function answerWith(vulnerabilities: Record<string, { severity: string }>): string {
  const of = (severity: string): number =>
    Object.values(vulnerabilities).filter((each) => each.severity === severity).length
  const counts = { low: of('low'), moderate: of('moderate'), high: of('high'), critical: of('critical') }
  return JSON.stringify({ auditReportVersion: 2, vulnerabilities, metadata: { vulnerabilities: counts } })
}

describe('the audit of dependencies', () => {
  it('fails for a high or critical advisory and names the package', () => {
    const answer = answerWith({ leaky: { severity: 'critical' }, mild: { severity: 'low' } })
    assert.deepEqual(verdictOf(answer), {
      outcome: 'vulnerable',
      text: 'packages with advisories: leaky (critical)',
    })
  })

  it('passes without one', () => {
    assert.equal(verdictOf(answerWith({ mild: { severity: 'moderate' } })).outcome, 'sound')
  })

  it('distinguishes a registry without audits from a clean result', () => {
    const answer = JSON.stringify({ message: 'request failed, 405 Method Not Allowed', error: {} })
    assert.deepEqual(verdictOf(answer), {
      outcome: 'unknown',
      text: 'no audit: request failed, 405 Method Not Allowed',
    })
    assert.equal(verdictOf('').outcome, 'unknown')
  })

  it('covers each lock file whose packages reach users, once', () => {
    const root = join(import.meta.dirname, '../..')
    const locks = globSync('**/package-lock.json', { cwd: root, exclude: ['**/node_modules'] }).map(dirname)
    const inner = ['bench', 'bench/service', 'bench/words', 'clients/typescript/runtimes', 'test/node-26']
    assert.deepEqual(auditedLocks(), locks.filter((directory) => !inner.includes(directory)).sort())
  })
})
