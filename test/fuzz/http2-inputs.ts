import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { frame } from '../support/raw-http2.ts'
import type { Dice } from './dice.ts'
import {
  acknowledged,
  endHeaders,
  endStream,
  h2Frame,
  headerBlock,
  hpackInteger,
  hpackText,
  preface,
  setting,
  types,
  uint32,
} from './http2-frames.ts'
import { closingOf, type Family, type Input, inTime, type Outcome } from './input.ts'
import { apiKey, type Target } from './target.ts'

/**
 * HTTP/2 that breaks the rules, each input on a new connection: floods of frames that are cheap to send, streams that
 * are reset as soon as they open, endless header blocks or ones that expand a thousandfold, windows that stay closed,
 * and frames that violate the protocol. The server may continue or end the connection, but other connections must not
 * be affected.
 */
export const http2Family: Family = {
  name: 'http2',
  share: 2,
  lanes: 4,
  make(dice) {
    const [label, scenario] = dice.pick(Object.entries(scenarios))
    const frames = scenario(dice)
    const parts = [preface, h2Frame(types.settings, 0, 0), ...frames]
    if (dice.chance(0.2)) {
      const at = dice.below(Math.min(parts.length, 20))
      parts[at] = dice.damaged(parts[at]!)
    }
    return http2Input(label, parts)
  },
}

function http2Input(label: string, parts: readonly Buffer[]): Input {
  return {
    label: `${label}, ${parts.length} frames`,
    parts,
    send: (target) => exchange(target, label, Buffer.concat(parts)),
    withParts: (others) => http2Input(label, others),
  }
}

const mark = Buffer.from('fuzzping')
const question = h2Frame(types.ping, 0, 0, mark)
const answer = h2Frame(types.ping, acknowledged, 0, mark)

async function exchange(target: Target, label: string, bytes: Buffer): Promise<Outcome> {
  const socket = connect(target.grpcPort, 'localhost')
  let isAnswered = false
  let last = Buffer.alloc(0)
  const answered = new Promise<void>((resolve) => {
    socket.on('data', (chunk) => {
      const text = Buffer.concat([last, chunk])
      if (text.includes(answer)) isAnswered = true
      if (isAnswered) resolve()
      last = text.subarray(-answer.length)
    })
  })
  const closed = closingOf(socket)
  socket.write(bytes)
  socket.write(question)
  // A frame that declares too much payload swallows the final request, so there may be no answer.
  await Promise.race([answered, closed, delay(500)])
  socket.end()
  await inTime(closed, label).finally(() => socket.destroy())
  return { answer: isAnswered ? 'served on' : 'closed' }
}

const path = '/vectordb.VectorDB/SearchPoints'
const callHeaders = [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', path],
  [':authority', 'localhost'],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
  ['authorization', apiKey],
] as const
const callBlock = headerBlock(callHeaders)

function open(stream: number, flags: number = endHeaders): Buffer {
  return h2Frame(types.headers, flags, stream, callBlock)
}

/** Frames for streams 1, 3, 5, ... in turn. */
function perStream(count: number, frames: (stream: number) => Buffer): Buffer[] {
  return Array.from({ length: count }, (_, index) => frames(2 * index + 1))
}

function repeated(count: number, bytes: Buffer): Buffer[] {
  return Array.from({ length: count }, () => bytes)
}

const scenarios: Readonly<Record<string, (dice: Dice) => Buffer[]>> = {
  'rapid reset': (dice) =>
    perStream(10 + dice.size(3000), (stream) =>
      Buffer.concat([open(stream), h2Frame(types.reset, 0, stream, uint32(8))]),
    ),
  'rapid reset with a message': (dice) =>
    perStream(10 + dice.size(1000), (stream) =>
      Buffer.concat([
        open(stream),
        h2Frame(types.data, endStream, stream, frame(Buffer.of(0x18, 1))),
        h2Frame(types.reset, 0, stream, uint32(8)),
      ]),
    ),
  'streams that never end': (dice) => perStream(dice.size(3000), open),
  'settings flood': (dice) =>
    repeated(dice.size(10_000), h2Frame(types.settings, 0, 0, setting(4, dice.below(2 ** 31)))),
  'settings in thousands': (dice) => [
    h2Frame(
      types.settings,
      0,
      0,
      Buffer.concat(repeated(dice.size(2700), setting(dice.below(9), dice.below(2 ** 32)))),
    ),
  ],
  'acknowledgement flood': (dice) => repeated(dice.size(5000), h2Frame(types.settings, acknowledged, 0)),
  'ping flood': (dice) => repeated(dice.size(20_000), h2Frame(types.ping, 0, 0, dice.bytes(8))),
  'ping answers without a ping': (dice) =>
    repeated(dice.size(1000), h2Frame(types.ping, acknowledged, 0, dice.bytes(8))),
  'empty data flood': (dice) => [open(1), ...repeated(dice.size(20_000), h2Frame(types.data, 0, 1))],
  'padding flood': (dice) => [
    open(1),
    ...repeated(
      dice.size(2000),
      h2Frame(types.data, 8, 1, Buffer.concat([Buffer.of(255), Buffer.alloc(255)])),
    ),
  ],
  'continuation flood': (dice) => [
    h2Frame(types.headers, 0, 1, callBlock),
    ...repeated(
      dice.size(5000),
      h2Frame(types.continuation, 0, 1, headerBlock([['x', 'y'.repeat(dice.size(1000))]])),
    ),
  ],
  'empty continuation flood': (dice) => [
    h2Frame(types.headers, 0, 1, callBlock),
    ...repeated(dice.size(20_000), h2Frame(types.continuation, 0, 1)),
  ],
  'continuation of nothing': () => [h2Frame(types.continuation, endHeaders, 1, callBlock)],
  'another frame inside a header block': (dice) => [
    h2Frame(types.headers, 0, 1, callBlock),
    h2Frame(dice.below(9), 0, dice.below(3), dice.bytes(8)),
  ],
  'header list of many': (dice) => [
    h2Frame(
      types.headers,
      endHeaders,
      1,
      Buffer.concat([
        callBlock,
        headerBlock(dice.list(dice.size(3000), (index) => [`x${index}`, ''])),
      ]).subarray(0, 16_384),
    ),
  ],
  'header of great size': (dice) => largeHeader(dice),
  'header bomb': (dice) => headerBomb(dice),
  'header table resizing': (dice) => [
    h2Frame(
      types.headers,
      endHeaders,
      1,
      Buffer.concat([...repeated(dice.size(5000), hpackInteger(dice.below(5000), 5, 0x20)), callBlock]),
    ),
  ],
  'header block that is none': (dice) => [
    h2Frame(types.headers, endHeaders | endStream, 1, dice.bytes(dice.size(2000))),
  ],
  'header integer without end': (dice) => [
    h2Frame(
      types.headers,
      endHeaders,
      1,
      Buffer.concat([Buffer.of(0xff), Buffer.alloc(dice.size(100), 0xff)]),
    ),
  ],
  'header index that is not there': (dice) => [
    h2Frame(types.headers, endHeaders, 1, hpackInteger(62 + dice.size(2 ** 30), 7, 0x80)),
  ],
  'pseudo headers wrong': (dice) => [
    h2Frame(types.headers, endHeaders | endStream, 1, headerBlock(wrongHeaders(dice))),
  ],
  'window overflow': (dice) => [
    open(1),
    ...repeated(1 + dice.below(3), h2Frame(types.windowUpdate, 0, dice.pick([0, 1]), uint32(2 ** 31 - 1))),
  ],
  'window update flood': (dice) => [
    open(1),
    ...repeated(
      dice.size(10_000),
      h2Frame(types.windowUpdate, 0, dice.pick([0, 1, 9]), uint32(dice.below(3))),
    ),
  ],
  'window that stays shut': (dice) => [
    h2Frame(types.settings, 0, 0, setting(4, 0)),
    ...perStream(dice.size(500), (stream) =>
      Buffer.concat([open(stream), h2Frame(types.data, endStream, stream, searchMessage)]),
    ),
  ],
  'priority flood': (dice) =>
    repeated(
      dice.size(10_000),
      h2Frame(
        types.priority,
        0,
        1 + 2 * dice.below(1000),
        Buffer.concat([uint32(dice.below(1000)), Buffer.of(255)]),
      ),
    ),
  'priority on itself': () => [h2Frame(types.priority, 0, 1, Buffer.concat([uint32(1), Buffer.of(1)]))],
  'data on no stream': (dice) => [h2Frame(types.data, 0, dice.pick([0, 1, 2, 99]), dice.bytes(10))],
  'reset of no stream': (dice) =>
    repeated(dice.size(1000), h2Frame(types.reset, 0, 1 + 2 * dice.below(100), uint32(dice.below(20)))),
  'streams out of order': () => [open(9), open(3), open(2), open(9)],
  'push from a client': () => [
    h2Frame(types.pushPromise, endHeaders, 1, Buffer.concat([uint32(2), callBlock])),
  ],
  'going away and on': (dice) => [
    ...repeated(
      dice.size(1000),
      h2Frame(types.goAway, 0, 0, Buffer.concat([uint32(0), uint32(0), dice.bytes(dice.size(100))])),
    ),
    open(1),
  ],
  'length beyond the most': (dice) => [
    h2Frame(dice.below(10), dice.below(256), dice.below(4), dice.bytes(20), 2 ** 24 - 1 - dice.below(100)),
  ],
  'lengths that do not fit': (dice) =>
    dice.list(1 + dice.below(20), () =>
      h2Frame(dice.below(10), dice.below(256), dice.below(4), dice.bytes(dice.size(30))),
    ),
  'types that are unknown': (dice) =>
    dice.list(dice.size(2000), () =>
      h2Frame(10 + dice.below(246), dice.below(256), dice.below(2 ** 32), dice.bytes(dice.size(50))),
    ),
  'HTTP/1 after the preface': () => [Buffer.from('GET / HTTP/1.1\r\nhost: x\r\n\r\n')],
  'only bytes': (dice) => [dice.bytes(dice.size(5000))],
  'many good calls': (dice) =>
    perStream(1 + dice.size(300), (stream) =>
      Buffer.concat([open(stream), h2Frame(types.data, endStream, stream, searchMessage)]),
    ),
}

const zeros = Buffer.alloc(32)
const searchMessage = frame(Buffer.concat([Buffer.of(0x0a, 34, 0x0a, 32), zeros, Buffer.of(0x18, 3)]))

function largeHeader(dice: Dice): Buffer[] {
  const block = Buffer.concat([callBlock, headerBlock([['x', 'y'.repeat(16_000 + dice.size(200_000))]])])
  const pieces = Array.from({ length: Math.ceil(block.length / 16_384) }, (_, index) =>
    block.subarray(index * 16_384, (index + 1) * 16_384),
  )
  return pieces.map((piece, index) => {
    const flags = index === pieces.length - 1 ? endHeaders : 0
    return h2Frame(index === 0 ? types.headers : types.continuation, flags, 1, piece)
  })
}

/** Puts one long header into the table; every following byte refers to it again. */
function headerBomb(dice: Dice): Buffer[] {
  const stored = Buffer.concat([Buffer.of(0x40), hpackText('x'), hpackText('y'.repeat(3900))])
  const block = Buffer.concat([callBlock, stored, Buffer.alloc(1 + dice.size(12_000), 0x80 | 62)])
  return perStream(1 + dice.below(5), (stream) => h2Frame(types.headers, endHeaders, stream, block))
}

function wrongHeaders(dice: Dice): (readonly [string, string])[] {
  const fields: (readonly [string, string])[] = [...callHeaders]
  const at = dice.below(fields.length)
  dice.pick([
    () => fields.splice(at, 1),
    () => fields.push(fields[at]!),
    () => fields.reverse(),
    () => fields.splice(at, 1, [fields[at]![0].toUpperCase(), fields[at]![1]]),
    () => fields.splice(at, 1, [fields[at]![0], dice.pick(['', '\u0000', 'a\r\nb', ' ', '\u00ff'])]),
    () =>
      fields.unshift([
        dice.pick([':status', ':nothing', 'connection', 'transfer-encoding', '', ' ', 'content-length']),
        '1',
      ]),
  ])()
  return fields
}
