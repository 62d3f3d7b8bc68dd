import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { verdictOf } from '../scripts/audit.ts'

/** As npm 11 answers, but for what is not looked at. */
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

  it('tells a registry without audits from a sound one', () => {
    const answer = JSON.stringify({ message: 'request failed, 405 Method Not Allowed', error: {} })
    assert.deepEqual(verdictOf(answer), {
      outcome: 'unknown',
      text: 'no audit: request failed, 405 Method Not Allowed',
    })
    assert.equal(verdictOf('').outcome, 'unknown')
  })
})
