import { DatabaseError } from '../../src/base/errors.ts'
import type { Dice } from './dice.ts'
import { type Family, type Input, inTime, leakIn, type Outcome, type World } from './input.ts'
import { goesBeyond, meaningOf, type RequestName, requestNames } from './protobuf-reference.ts'
import { apiKey, dimension, type Target } from './target.ts'

/**
 * Messages over gRPC: valid ones, changed field by field where parsers of the wire format are weak, then sometimes
 * damaged as bytes. Every answer must have the code that the reference expects for these bytes.
 */
export const protobufFamily: Family = {
  name: 'protobuf',
  share: 40,
  lanes: 32,
  make(dice, world) {
    const name = dice.pick(requestNames)
    const fields = requestOf(dice, name, world)
    for (let changes = dice.below(4); changes > 0; changes -= 1) change(dice, fields)
    const bytes = message(fields)
    return protobufInput(name, [dice.chance(0.25) ? dice.damaged(bytes) : bytes], world)
  },
}

function protobufInput(name: RequestName, parts: readonly Buffer[], world: World): Input {
  return {
    label: name,
    parts,
    send: (target) => sendMessage(target, name, Buffer.concat(parts), world),
    withParts: (others) => protobufInput(name, others, world),
  }
}

const codes = { ok: 0, invalidArgument: 3, notFound: 5, alreadyExists: 6 } as const

async function sendMessage(
  target: Target,
  name: RequestName,
  bytes: Buffer,
  { stored }: World,
): Promise<Outcome> {
  const meaning = meaningOf(name, bytes, dimension)
  const { code, text, answer } = await inTime(target.calls.send(name, bytes), name)
  if (goesBeyond(name, bytes)) {
    if (code === codes.ok && name.startsWith('Insert')) await recordRead(target, idsIn(answer))
    const leak = leakIn(text, [apiKey])
    const isKnown = Object.values<number>(codes).includes(code)
    return {
      answer: String(code),
      fault: isKnown ? leak && `${leak} in the answer` : `code ${code}: ${text}`,
    }
  }
  if (code === codes.ok && meaning !== undefined && 'points' in meaning) {
    for (const [index, id] of idsIn(answer).entries()) target.ledger.set(id, meaning.points[index]!)
  }
  const isMissing = meaning !== undefined && 'id' in meaning && !stored.includes(meaning.id)
  const expected = meaning === undefined ? codes.invalidArgument : isMissing ? codes.notFound : codes.ok
  const leak = leakIn(text, [apiKey])
  const fault =
    code !== expected ? `code ${code} instead of ${expected}: ${text}` : leak && `${leak} in the answer`
  return { answer: String(code), fault }
}

/** Records the current state of points; points that have already expired are missing. */
async function recordRead(target: Target, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    try {
      const { vector, payload } = await target.reader.get(id)
      target.ledger.set(id, { vector, payload })
    } catch (error) {
      if (!(error instanceof DatabaseError && error.reason === 'not_found')) throw error
    }
  }
}

interface IdMessage {
  readonly id?: { readonly value: string }
}

function idsIn(answer: unknown): string[] {
  const { ids = [answer as IdMessage] } = answer as { readonly ids?: readonly IdMessage[] }
  return ids.map(({ id }) => id!.value)
}

/** A field to encode: nested fields, or raw bytes. */
interface Field {
  no: number
  type: number
  content: Buffer | Field[]
  /** Added to the right length, or used instead of it. */
  length?: { readonly plus: number } | { readonly instead: bigint }
}

const varintType = 0
const delimited = 2

function requestOf(dice: Dice, name: RequestName, { stored }: World): Field[] {
  if (name === 'InsertVector') return pointFields(dice)
  if (name === 'SearchPoints') return queryFields(dice)
  if (name === 'GetPoint') return idFields(dice.chance(0.5) ? dice.pick(stored) : dice.uuid())
  // Changes cannot turn a random id into a stored one, so no stored point is deleted.
  if (name === 'DeletePoint') return idFields(dice.uuid())
  const item = name === 'InsertVectorsBatch' ? pointFields : queryFields
  return dice.list(dice.size(20) - 1, () => nested(1, item(dice)))
}

function pointFields(dice: Dice): Field[] {
  return [
    nested(1, vectorFields(dice)),
    nested(2, [
      scalar(1, BigInt(dice.below(2))),
      text(2, dice.pick(['', 'text', '\u0000', '🦊', dice.uuid()])),
    ]),
  ]
}

function queryFields(dice: Dice): Field[] {
  const fields = [
    nested(1, vectorFields(dice)),
    scalar(2, BigInt(dice.below(4))),
    scalar(3, BigInt(1 + dice.below(20))),
  ]
  return dice.chance(0.3) ? [...fields, scalar(4, BigInt(dice.below(300)))] : fields
}

function idFields(id: string): Field[] {
  return [nested(1, [text(1, id)])]
}

/** The components packed, one by one, or in two pieces. */
function vectorFields(dice: Dice): Field[] {
  const floats = dice.list(dimension, () => float(dice.float()))
  const cut = dice.below(dimension)
  return dice.pick([
    () => [{ no: 1, type: delimited, content: Buffer.concat(floats) }],
    () => floats.map((content) => ({ no: 1, type: 5, content })),
    () => [
      { no: 1, type: delimited, content: Buffer.concat(floats.slice(0, cut)) },
      { no: 1, type: delimited, content: Buffer.concat(floats.slice(cut)) },
    ],
  ])()
}

function nested(no: number, content: Field[]): Field {
  return { no, type: delimited, content }
}

function scalar(no: number, value: bigint): Field {
  return { no, type: varintType, content: varint(value) }
}

function text(no: number, content: string): Field {
  return { no, type: delimited, content: Buffer.from(content) }
}

function float(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeFloatLE(value)
  return bytes
}

/** Makes one change somewhere in a message. */
function change(dice: Dice, fields: Field[]): void {
  const messages = messagesIn(fields)
  const chosen = dice.pick(messages)
  const at = dice.below(chosen.length)
  const field = chosen[at]
  if (field === undefined || dice.chance(0.3)) {
    chosen.splice(at, 0, ...unknownFields(dice))
    return
  }
  dice.pick([
    () => chosen.splice(at, 1),
    () => chosen.splice(at, 0, field),
    () => chosen.reverse(),
    () => (field.no = dice.pick([0, 1, 2, 3, 4, 5, 15, 16, 2 ** 29 - 1, 2 ** 29, 2 ** 32])),
    () => (field.type = dice.below(8)),
    () => (field.length = { plus: dice.pick([-4, -1, 1, 4, 100, 65_536]) }),
    () => (field.length = { instead: dice.pick(hostileNumbers) }),
    () => (field.content = hostileContent(dice, field.type)),
    () => (field.content = hostileContent(dice, field.type)),
    () => (field.content = hostileContent(dice, field.type)),
  ])()
}

function messagesIn(fields: Field[]): Field[][] {
  const inside = fields.map(({ content }) => content).filter((content) => Array.isArray(content))
  return [fields, ...inside.flatMap(messagesIn)]
}

const hostileNumbers = [
  0n,
  1n,
  4n,
  16_384n,
  16_385n,
  2n ** 31n - 1n,
  2n ** 31n,
  2n ** 32n - 1n,
  2n ** 32n,
  2n ** 32n + 1n,
  2n ** 53n,
  2n ** 53n + 1n,
  2n ** 63n,
  2n ** 64n - 1n,
]

function hostileContent(dice: Dice, type: number): Buffer {
  if (type === varintType) {
    return dice.pick([
      () => varint(dice.pick(hostileNumbers)),
      () => overlong(dice.pick(hostileNumbers), 10),
      () => Buffer.alloc(1 + dice.below(12), 0xff),
      () => Buffer.concat([Buffer.alloc(9, 0x80), Buffer.of(dice.below(128))]),
      () => Buffer.concat([Buffer.alloc(10, 0x80), Buffer.of(0)]),
    ])()
  }
  return dice.pick([
    () => Buffer.alloc(0),
    () => dice.bytes(dice.size(64)),
    () => Buffer.concat(dice.list(dimension, () => float(dice.pick(hostileFloats)))),
    () => Buffer.alloc(4 * dice.size(20_000)),
    () => Buffer.from(dice.pick(['__proto__', '\u0000', '\ufeff', dice.uuid(), dice.uuid().toUpperCase()])),
    () => Buffer.from(dice.pick(invalidUtf8)),
    () => Buffer.concat([Buffer.from('text'), Buffer.from(dice.pick(invalidUtf8))]),
    () => groups(dice),
    () => Buffer.concat(dice.list(dice.size(1000), () => Buffer.of(0x0a, 0))),
  ])()
}

const hostileFloats = [Number.NaN, Infinity, -Infinity, 3.4028234663852886e38, 1e-45, -0, 0]

const invalidUtf8 = [
  [0xff],
  [0xc3],
  [0xc0, 0x80],
  [0xed, 0xa0, 0x80],
  [0xf4, 0x90, 0x80, 0x80],
  [0xf8, 0x88, 0x80, 0x80, 0x80],
]

function unknownFields(dice: Dice): Field[] {
  const no = dice.pick([3, 5, 9, 16, 1000, 2 ** 29 - 1])
  return dice.list(dice.size(5), () =>
    dice.pick([
      () => ({ no, type: varintType, content: varint(dice.pick(hostileNumbers)) }),
      () => ({ no, type: 1, content: dice.bytes(8) }),
      () => ({ no, type: delimited, content: dice.bytes(dice.size(300)) }),
      () => ({ no, type: 5, content: dice.bytes(4) }),
      // Raw bytes, without a tag and a length before them.
      () => ({ no: -1, type: 0, content: groups(dice) }),
    ])(),
  )
}

/** Nested groups: all closed, some unclosed, or closed with the wrong end tag. */
function groups(dice: Dice): Buffer {
  const depth = dice.pick([1, 2, 63, 64, 65, 1 + dice.size(50_000)])
  const end = dice.chance(0.8) ? 0x7c : dice.pick([0x74, 0x84, 0x7b])
  return Buffer.concat([
    Buffer.alloc(depth, 0x7b),
    Buffer.alloc(dice.chance(0.8) ? depth : dice.below(depth + 2), end),
  ])
}

function message(fields: readonly Field[]): Buffer {
  return Buffer.concat(fields.map(encoded))
}

function encoded({ no, type, content, length }: Field): Buffer {
  const bytes = Array.isArray(content) ? message(content) : content
  if (no === -1) return bytes
  const tag = varint((BigInt(no) << 3n) | BigInt(type))
  return type === delimited
    ? Buffer.concat([tag, varint(lengthOf(bytes, length)), bytes])
    : Buffer.concat([tag, bytes])
}

function lengthOf(bytes: Buffer, length: Field['length']): bigint {
  if (length === undefined) return BigInt(bytes.length)
  return 'instead' in length ? length.instead : BigInt(Math.max(0, bytes.length + length.plus))
}

function varint(value: bigint): Buffer {
  const bytes: number[] = []
  for (let rest = value; ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)])
    bytes.push(Number(rest & 127n) | 128)
  }
}

/** A varint in more bytes than needed; parsers must accept up to ten. */
function overlong(value: bigint, length: number): Buffer {
  const short = varint(value)
  if (short.length >= length) return short
  const last = short.length - 1
  short[last] = short[last]! | 0x80
  return Buffer.concat([short, Buffer.alloc(length - short.length - 1, 0x80), Buffer.of(0)])
}
