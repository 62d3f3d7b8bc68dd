import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { seededRandom } from '../../test/support/random.ts'

/** Returns the texts of a file, or the package descriptions of Debian that apt-cache knows. */
export function readTexts(source: string): readonly string[] {
  if (source === 'debian') return debianDescriptions()
  const lines = readFileSync(source, 'utf8').trim().split('\n')
  return lines.map((line) => (JSON.parse(line) as { readonly text: string }).text)
}

function debianDescriptions(): string[] {
  const all = execFileSync('apt-cache', ['dumpavail'], { encoding: 'utf8', maxBuffer: 2 ** 30 })
  return all.split('\n\n').flatMap((record) => {
    const name = /^Package: (.*)$/m.exec(record)
    const description = /^Description(?:-en)?: (.*(?:\n .*)*)/m.exec(record)
    return name === null || description === null
      ? []
      : [`${name[1]}: ${description[1]!.replaceAll(/\n \.?/g, '\n')}`]
  })
}

/** The kinds of queries: words of a text, in any order, or as they follow one another. */
export const queryKinds = {
  '2 to 3 words': { least: 2, most: 3, isRun: false },
  '10 to 15 words': { least: 10, most: 15, isRun: true },
} as const
export type QueryKind = keyof typeof queryKinds

const seed = 20_261_128

/** Returns queries of a kind from the texts, always the same. */
export function makeQueries(texts: readonly string[], kind: QueryKind, count: number): string[] {
  const { least, most, isRun } = queryKinds[kind]
  const random = seededRandom(seed)
  const below = (limit: number): number => Math.floor(random() * limit)
  const queries: string[] = []
  while (queries.length < count) {
    const words = texts[below(texts.length)]!.match(/[A-Za-z0-9]+/g) ?? []
    const length = least + below(most - least + 1)
    if (words.length < length) continue
    const from = below(words.length - length + 1)
    const places = Array.from({ length }, (_, index) => (isRun ? from + index : below(words.length)))
    queries.push(places.map((place) => words[place]!).join(' '))
  }
  return queries
}
