/**
 * A page of docs has sections that a benchmark writes, so that nobody copies figures by hand:
 *
 *   <!-- bench:index wordnet -->
 *   a table
 *   <!-- end -->
 *
 * @param name what follows `<!--`
 * @returns the page with other content in the section
 * @throws Error if the page has no section of this name
 */
export function withSection(page: string, name: string, content: string): string {
  const begin = `<!-- ${name} -->\n`
  const from = page.indexOf(begin)
  const to = page.indexOf(end, from)
  if (from === -1 || to === -1) throw new Error(`the page has no section ${begin.trim()} ... ${end}`)
  return `${page.slice(0, from + begin.length)}\n${content}\n\n${page.slice(to)}`
}

const end = '<!-- end -->'
