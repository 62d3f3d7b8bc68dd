import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface Violation {
  readonly id: string
  readonly impact: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[]
}

/** The rules about colours. A page has the same elements in all colour schemes, so the others apply once. */
export const colourRules: readonly string[] = ['color-contrast', 'link-in-text-block']

/**
 * The serious and critical violations that axe-core finds on a page, as text.
 *
 * @param rules those to check; by default all that axe-core checks by default
 */
export async function faultsOf(page: Page, rules?: readonly string[]): Promise<readonly string[]> {
  // The page's content security policy forbids external scripts, but does not apply to code that a test evaluates.
  await page.evaluate(axe)
  const options = JSON.stringify({ resultTypes: ['violations'], runOnly: rules })
  const violations = (await page.evaluate(
    `axe.run(document, ${options}).then(({ violations }) => violations)`,
  )) as readonly Violation[]
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`))
}
