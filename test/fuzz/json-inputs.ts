import type { Dice } from './dice.ts'
import { type Family, type Input, inTime, leakIn, type Outcome, type World } from './input.ts'
import { broken, change, type Fields, type Node, write } from './json-nodes.ts'
import { isBorderline, type JsonShape, readBody } from './json-reference.ts'
import { apiKey, dimension, maxRequestBytes, type StoredPoint, type Target } from './target.ts'

/**
 * Bodies and ids over HTTP: valid documents, changed where JSON and its parsers are weak, then sometimes damaged as
 * bytes. Every answer must be the one that the reference expects for these bytes.
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

/** The fault in an answer, or undefined. @param expected statuses */
export function faultOf(
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
  // Changes cannot turn a stored id into another stored id, and no stored point is deleted.
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
    // A malformed escape is not an id.
    return ''
  }
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
