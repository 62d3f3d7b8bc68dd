import type { Dice } from './dice.ts'

/** Documents that can be changed where JSON and its parsers are weak. */

/** A document as structured text: a string is JSON text, valid or not; keys may be repeated. */
export type Node = string | Node[] | Fields

export interface Fields {
  readonly entries: [key: string, value: Node][]
}

/** Changes one place of a document. @param document contains only the outermost value */
export function change(dice: Dice, document: Node[]): void {
  const places = placesIn(document)
  const { fields, items, index } = dice.pick(places)
  if (items !== undefined) {
    if (dice.chance(0.7)) items[index] = hostileValue(dice)
    else if (items !== document)
      items.splice(index, dice.below(2), ...dice.list(dice.size(9), () => hostileValue(dice)))
    return
  }
  const entry = fields.entries[index]!
  switch (dice.below(5)) {
    case 0:
      fields.entries.splice(index, 1)
      break
    case 1:
      fields.entries.splice(dice.below(fields.entries.length + 1), 0, [entry[0], hostileValue(dice)])
      break
    case 2:
      entry[0] = dice.pick(hostileKeys)
      break
    case 3:
      fields.entries.push([dice.pick(hostileKeys), dice.chance(0.5) ? entry[1] : hostileValue(dice)])
      break
    default:
      entry[1] = hostileValue(dice)
  }
}

type Place =
  | { readonly items: Node[]; readonly fields?: undefined; readonly index: number }
  | { readonly items?: undefined; readonly fields: Fields; readonly index: number }

function placesIn(node: Node): Place[] {
  if (typeof node === 'string') return []
  if (Array.isArray(node)) {
    return node.flatMap((item, index) => [{ items: node, index }, ...placesIn(item)])
  }
  return node.entries.flatMap(([, value], index) => [{ fields: node, index }, ...placesIn(value)])
}

const hostileKeys = [
  '"__proto__"',
  '"constructor"',
  '"prototype"',
  '"toString"',
  '"hasOwnProperty"',
  '"length"',
  '""',
  '"Vector"',
  '"vector\\u0000"',
  '"\\u0076ector"',
  '"vector "',
  '"limit"',
  '"ef"',
  '"\\ud800"',
  'vector',
  "'vector'",
  'null',
  '1',
]

const hostileTexts = [
  'null',
  'true',
  'false',
  '{}',
  '[]',
  '""',
  '[[]]',
  '{"":{}}',
  'undefined',
  'NaN',
  'Infinity',
  '-Infinity',
  '1e400',
  '-1e400',
  '1e39',
  '-1e39',
  '3.4028236e38',
  '3.4028235e38',
  '1e-400',
  '-0',
  '-0.0',
  '0e0',
  '1E+2',
  '01',
  '-01',
  '00',
  '.5',
  '5.',
  '+1',
  '--1',
  '1e',
  '1e+',
  '0x10',
  '0b1',
  '1_000',
  '1n',
  '²',
  '١',
  '-',
  '9007199254740993',
  '18446744073709551616',
  '1e1000000',
  '0.1e-9999999999',
  '16384',
  '16385',
  '0',
  '-1',
  '1.5',
  '"1"',
  '"\\x41"',
  '"\\u12"',
  '"\\u{41}"',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"a\u0000b"',
  '"a\nb"',
  '"\t"',
  '"\\',
  '"Text"',
  '"text"',
  '"Euclidean\\u0000"',
  '"__proto__"',
  '"\ufeff"',
  "'Text'",
  '`x`',
  '"unterminated',
  '{"__proto__":{"polluted":1}}',
  '{"constructor":{"prototype":{"polluted":1}}}',
  '{"toJSON":1}',
  '{"length":8}',
  '[,]',
  '[1,]',
  '[1 2]',
  '{,}',
  '{"a"}',
  '{"a":}',
  '{"a":1,}',
  '{a:1}',
  '/**/1',
  '1//',
  '#',
  ']',
  '}',
  ',',
  ...['{"0":1,"1":2,"length":2}', '[1,2,3,4,5,6,7,8]', '[1,2,3,4,5,6,7,8,9]', '[1,2,3,4,5,6,7,null]'],
]

export function hostileValue(dice: Dice): Node {
  if (dice.chance(0.9)) return dice.pick(hostileTexts)
  const size = dice.size(30_000)
  return dice.pick([
    () => '['.repeat(size) + ']'.repeat(size),
    () => '['.repeat(size),
    () => '{"a":'.repeat(size),
    () => `${'{"a":'.repeat(size)}1${'}'.repeat(size)}`,
    () => `[${'0,'.repeat(size)}0]`,
    () => `[${'{},'.repeat(size)}{}]`,
    () => `"${'\\u0041'.repeat(size)}"`,
    () => `"${'é'.repeat(size)}"`,
    () => '9'.repeat(size),
    () => `0.${'0'.repeat(size)}1`,
    () => `{${'"a":1,'.repeat(size)}"a":1}`,
    () => ' '.repeat(size),
  ])()
}

export function write(dice: Dice, [root]: Node[]): string {
  const comma = dice.chance(0.05) ? dice.pick([',,', ';', ' ', ',\u00a0', ',\n\r\t ']) : ','
  const colon = dice.chance(0.05) ? dice.pick(['::', '=', ' ', '\n:\t']) : ':'
  const text = (node: Node): string => {
    if (typeof node === 'string') return node
    if (Array.isArray(node)) return `[${node.map(text).join(comma)}]`
    return `{${node.entries.map(([key, value]) => key + colon + text(value)).join(comma)}}`
  }
  return text(root!)
}

/** Adds faults in the bytes and around the document. */
export function broken(dice: Dice, text: Buffer): Buffer {
  return dice.pick([
    () => text.subarray(0, dice.below(text.length)),
    () => Buffer.concat([Buffer.of(0xef, 0xbb, 0xbf), text]),
    () => Buffer.concat([text, text]),
    () => Buffer.concat([text, Buffer.alloc(1 + dice.size(300_000), ' ')]),
    () => Buffer.concat([text, dice.bytes(1 + dice.below(4))]),
    () => Buffer.from(text.toString(), 'utf16le'),
    () => Buffer.alloc(0),
    () => dice.bytes(dice.size(200)),
    () => dice.damaged(text),
    () => dice.damaged(text),
    () => {
      const invalid = dice.pick([
        [0xff],
        [0xc0, 0x80],
        [0xed, 0xa0, 0x80],
        [0xf4, 0x90, 0x80, 0x80],
        [0xe2, 0x82],
      ])
      const at = dice.below(text.length)
      return Buffer.concat([text.subarray(0, at), Buffer.from(invalid), text.subarray(at)])
    },
  ])()
}

/** Converts a value to a document. */
export function nodeOf(value: unknown): Node {
  if (Array.isArray(value)) return value.map(nodeOf)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return { entries: Object.entries(value).map(([key, each]) => [JSON.stringify(key), nodeOf(each)]) }
}
