import type { Dice } from './dice.ts'
import { type Family, type Input, inTime, leakIn, type Outcome, type World } from './input.ts'
import { isBorderline, type JsonShape, readBody } from './json-reference.ts'
import { apiKey, dimension, maxRequestBytes, type StoredPoint, type Target } from './target.ts'

/**
 * Bodies and ids over HTTP: documents that are right, changed where JSON and its readers are weak, and then
 * sometimes damaged as bytes. Every answer has to be the one that the reference gives for these bytes.
 */
export const jsonFamily: Family = {
  name: 'json',
  share: 44,
  lanes: 8,
  make: (dice, world) => (dice.chance(0.1) ? idInput(dice, world) : bodyInput(dice)),
}

const paths: Readonly<Record<JsonShape, string>> = {
  point: '/points',
  points: '/points/batch',
  query: '/points/search',
  queries: '/points/search/batch',
}

function bodyInput(dice: Dice): Input {
  const shape = dice.pick(Object.keys(paths) as JsonShape[])
  const document = documentOf(dice, shape)
  for (let changes = dice.below(4); changes > 0; changes -= 1) change(dice, document)
  const text = Buffer.from(write(dice, document))
  return jsonInput(shape, [dice.chance(0.15) ? broken(dice, text) : text])
}

function jsonInput(shape: JsonShape, parts: readonly Buffer[]): Input {
  const path = paths[shape]
  return {
    label: `POST ${path}`,
    parts,
    send: (target) => sendBody(target, shape, Buffer.concat(parts)),
    withParts: (others) => jsonInput(shape, others),
  }
}

async function sendBody(target: Target, shape: JsonShape, body: Buffer): Promise<Outcome> {
  const path = paths[shape]
  const points = body.length > maxRequestBytes ? undefined : readBody(shape, body, dimension)
  const {
    status,
    headers,
    body: text,
  } = await inTime(
    target.withHttp((connection) => {
      connection.request(`POST ${path}`, ['content-type: application/json'], body)
      return connection.answer()
    }),
    `POST ${path}`,
  )
  const refusal = body.length > maxRequestBytes ? 413 : 400
  const success = shape === 'point' || shape === 'points' ? 201 : 200
  const expected = points === undefined ? [refusal] : isBorderline(body) ? [success, refusal] : [success]
  if (status === 201) record(target, text, points ?? [])
  return { answer: String(status), fault: faultOf(status, expected, headers['content-type'], text) }
}

function record(target: Target, text: string, points: readonly StoredPoint[]): void {
  const { point_id, point_ids = [point_id] } = JSON.parse(text)
  for (const [index, point] of points.entries()) target.ledger.set(point_ids[index], point)
}

function faultOf(
  status: number,
  expected: readonly number[],
  contentType: string | undefined,
  text: string,
): string | undefined {
  if (!expected.includes(status))
    return `${status} instead of ${expected.join(' or ')}: ${text.slice(0, 200)}`
  if (status < 400) return undefined
  if (contentType !== 'text/plain; charset=utf-8') return `an error as ${contentType}`
  if (text.length > 1000) return `an error of ${text.length} characters`
  const leak = leakIn(text, [apiKey])
  return leak && `${leak} in the answer`
}

function idInput(dice: Dice, { stored }: World): Input {
  const method = dice.pick(['GET', 'DELETE'] as const)
  // Whatever becomes of a stored id by these changes, it is no other stored id; and none is deleted.
  const id = method === 'GET' && dice.chance(0.5) ? dice.pick(stored) : dice.uuid()
  const text = dice.pick([
    () => id,
    () => id.toUpperCase(),
    () => id.slice(0, dice.below(36)),
    () => id.replaceAll('-', ''),
    () => `{${id}}`,
    () => `%7b${id}%7D`,
    () => `${id}%00`,
    () => `%20${id}`,
    () => `${id}${'0'.repeat(dice.size(3000))}`,
    () => id.replace(/./g, (each) => `%${each.charCodeAt(0).toString(16)}`),
    () => id.replace('a', '%c3%a1').replace('0', '%EF%BC%90'),
    () =>
      dice.pick(['__proto__', 'constructor', 'toString', 'null', '%', '%zz', '%ff', '..%2f', '*', '~', '0']),
  ])()
  return {
    label: `${method} /points/${text}`,
    parts: [Buffer.from(text)],
    send: (target) => sendId(target, method, text, stored),
    withParts: undefined,
  }
}

async function sendId(
  target: Target,
  method: 'GET' | 'DELETE',
  text: string,
  stored: readonly string[],
): Promise<Outcome> {
  const { status, headers, body } = await inTime(
    target.withHttp((connection) => {
      connection.request(`${method} /points/${text}`)
      return connection.answer()
    }),
    `${method} /points/${text}`,
  )
  const id = decoded(text)
  const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)
  const isStored = stored.includes(id.toLowerCase())
  const expected = !isId ? 400 : method === 'DELETE' ? 204 : isStored ? 200 : 404
  return { answer: String(status), fault: faultOf(status, [expected], headers['content-type'], body) }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    // A malformed escape is no id either.
    return ''
  }
}

/** A document as text with structure: a string is JSON text, right or wrong; keys may come more than once. */
type Node = string | Node[] | Fields

interface Fields {
  readonly entries: [key: string, value: Node][]
}

function documentOf(dice: Dice, shape: JsonShape): Node[] {
  const item = shape === 'point' || shape === 'points' ? pointNode : queryNode
  if (shape === 'point' || shape === 'query') return [item(dice)]
  const items = dice.list(dice.size(20) - 1, () => item(dice))
  return [{ entries: [[shape === 'points' ? '"vectors"' : '"queries"', items]] }]
}

function pointNode(dice: Dice): Fields {
  const content = dice.pick([
    '""',
    '"text"',
    '"\\u0000"',
    '"\\ud83e\\udd8a"',
    '"é\u2028🦊"',
    JSON.stringify(dice.uuid()),
  ])
  const payload: Fields = {
    entries: [
      ['"content_type"', dice.pick(['"Text"', '"Image"'])],
      ['"content"', content],
    ],
  }
  return {
    entries: [
      ['"vector"', vectorNode(dice)],
      ['"payload"', payload],
    ],
  }
}

function queryNode(dice: Dice): Fields {
  const entries: [string, Node][] = [
    ['"vector"', vectorNode(dice)],
    ['"similarity"', dice.pick(['"Euclidean"', '"Manhattan"', '"Hamming"', '"Cosine"'])],
    ['"limit"', String(1 + dice.below(20))],
  ]
  if (dice.chance(0.3)) entries.push(['"ef"', String(dice.below(300))])
  return { entries }
}

function vectorNode(dice: Dice): Node[] {
  return dice.list(dimension, () => String(dice.float()))
}

/** Changes one place of a document. @param document holds the one outermost value */
function change(dice: Dice, document: Node[]): void {
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
  ...[
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
  ],
  ...[
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
  ],
  ...['01', '-01', '00', '.5', '5.', '+1', '--1', '1e', '1e+', '0x10', '0b1', '1_000', '1n', '²', '١', '-'],
  ...[
    '9007199254740993',
    '18446744073709551616',
    '1e1000000',
    '0.1e-9999999999',
    '16384',
    '16385',
    '0',
    '-1',
    '1.5',
  ],
  ...[
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
  ],
  ...['"Text"', '"text"', '"Euclidean\\u0000"', '"__proto__"', '"\ufeff"', "'Text'", '`x`', '"unterminated'],
  ...[
    '{"__proto__":{"polluted":1}}',
    '{"constructor":{"prototype":{"polluted":1}}}',
    '{"toJSON":1}',
    '{"length":8}',
  ],
  ...[
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
  ],
  ...['{"0":1,"1":2,"length":2}', '[1,2,3,4,5,6,7,8]', '[1,2,3,4,5,6,7,8,9]', '[1,2,3,4,5,6,7,null]'],
]

function hostileValue(dice: Dice): Node {
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

function write(dice: Dice, [root]: Node[]): string {
  const comma = dice.chance(0.05) ? dice.pick([',,', ';', ' ', ',\u00a0', ',\n\r\t ']) : ','
  const colon = dice.chance(0.05) ? dice.pick(['::', '=', ' ', '\n:\t']) : ':'
  const text = (node: Node): string => {
    if (typeof node === 'string') return node
    if (Array.isArray(node)) return `[${node.map(text).join(comma)}]`
    return `{${node.entries.map(([key, value]) => key + colon + text(value)).join(comma)}}`
  }
  return text(root!)
}

/** Faults below the level of characters, and around the document. */
function broken(dice: Dice, text: Buffer): Buffer {
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
