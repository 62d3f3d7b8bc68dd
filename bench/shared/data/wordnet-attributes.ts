import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Attributes of a synset in WordNet, in addition to its gloss. */
export interface WordNetAttributes {
  /** Part of speech. */
  readonly pos: string
  /** The lexicographer file: the subject of the synset, such as `animal`. */
  readonly topic: string
  /** The number of characters of the text. */
  readonly length: number
}

/** The lexicographer files in the order of their numbers (lexnames(5WN)), without their part of speech. */
const topics = [
  'all',
  'pert',
  'all',
  'tops',
  'act',
  'animal',
  'artifact',
  'attribute',
  'body',
  'cognition',
  'communication',
  'event',
  'feeling',
  'food',
  'group',
  'location',
  'motive',
  'object',
  'person',
  'phenomenon',
  'plant',
  'possession',
  'process',
  'quantity',
  'relation',
  'shape',
  'state',
  'substance',
  'time',
  'body',
  'change',
  'cognition',
  'communication',
  'competition',
  'consumption',
  'contact',
  'creation',
  'emotion',
  'motion',
  'perception',
  'possession',
  'social',
  'stative',
  'weather',
  'ppl',
]

/** The data files by the letter of an id. The data set labels adverbs as adjectives. */
const files: Readonly<Record<string, readonly (readonly [file: string, pos: string])[]>> = {
  n: [['noun', 'noun']],
  v: [['verb', 'verb']],
  a: [
    ['adj', 'adjective'],
    ['adv', 'adverb'],
  ],
}

/**
 * The attributes of texts of the WordNet set.
 *
 * @param dictionary folder with the files data.noun and so on, of WordNet 3.1
 * @param lines `{"id", "text"}`: part of speech and offset of the synset, and lemmas with gloss
 */
export function wordNetAttributes(dictionary: string, lines: readonly string[]): WordNetAttributes[] {
  const data = new Map(
    ['noun', 'verb', 'adj', 'adv'].map((file) => [
      file,
      readFileSync(join(dictionary, `data.${file}`), 'latin1'),
    ]),
  )
  return lines.map((line) => {
    const { id, text } = JSON.parse(line) as { readonly id: string; readonly text: string }
    const offset = id.slice(1)
    for (const [file, pos] of files[id[0]!] ?? []) {
      // A record starts at its offset, with the offset in eight digits and the number of its lexicographer file in two.
      const record = data.get(file)!.slice(Number(offset), Number(offset) + 11)
      const topic = topics[Number(record.slice(9))]
      if (record.startsWith(offset) && topic !== undefined) return { pos, topic, length: text.length }
    }
    throw new Error(`${id} is not a synset of ${dictionary}`)
  })
}
