import { deflateSync, gzipSync } from 'node:zlib'
import { frame, RawHttp2 } from '../support/raw-http2.ts'
import type { Dice } from './dice.ts'
import { type Family, type Input, inTime, leakIn, type Outcome, type World } from './input.ts'
import { apiKey, dimension, maxRequestBytes, type Target } from './target.ts'

/**
 * Calls with wrong frames, headers and encodings: the layers between HTTP/2 and the message. Each call must end in time
 * with a code that blames the caller. With a wrong key, the code must be UNAUTHENTICATED or that of an unknown method.
 */
export const callFamily: Family = {
  name: 'call',
  share: 6,
  lanes: 8,
  make(dice, world) {
    const hasKey = dice.chance(0.7)
    const body = dice.chance(0.2) ? dice.damaged(bodyOf(dice, world)) : bodyOf(dice, world)
    const headers = { authorization: hasKey ? apiKey : dice.pick(wrongKeys), ...headersOf(dice) }
    return callInput(dice.pick(callPaths), headers, hasKey, [body])
  },
}

type Headers = Readonly<Record<string, string>>

function callInput(path: string, headers: Headers, hasKey: boolean, parts: readonly Buffer[]): Input {
  return {
    label: `${path} with ${JSON.stringify(headers).slice(0, 200)}`,
    parts,
    send: (target) => sendCall(target, path, headers, hasKey, Buffer.concat(parts)),
    withParts: (others) => callInput(path, headers, hasKey, others),
  }
}

const ok = 0
/** UNKNOWN, INTERNAL, UNAVAILABLE and DATA_LOSS would blame the server. */
const ourFault: readonly number[] = [2, 13, 14, 15]
const unauthenticated = 16

async function sendCall(
  target: Target,
  path: string,
  headers: Headers,
  hasKey: boolean,
  body: Buffer,
): Promise<Outcome> {
  using session = new RawHttp2(target.grpcPort)
  const { http, code, message } = await inTime(session.call(path, body, headers), path)
  const answer = code === undefined ? (http === 0 ? 'reset' : `HTTP ${http}`) : String(code)
  const leak = leakIn(message, [apiKey])
  let fault: string | undefined
  if (http >= 500) fault = `HTTP ${http}`
  else if (code !== undefined && ourFault.includes(code)) fault = `code ${code}: ${message}`
  else if (!hasKey && code === ok) fault = 'answered without the key'
  else if (leak !== undefined) fault = `${leak} in the answer`
  else if (message.length > 1000) fault = `a message of ${message.length} characters`
  return { answer: !hasKey && code === unauthenticated ? 'refused' : answer, fault }
}

/** Read-only methods, so that no damaged message can store or delete a point. */
const callPaths = [
  '/vectordb.VectorDB/SearchPoints',
  '/vectordb.VectorDB/SearchPoints',
  '/vectordb.VectorDB/SearchPoints',
  '/vectordb.VectorDB/SearchPointsBatch',
  '/vectordb.VectorDB/GetPoint',
  '/vectordb.VectorDB/GetPoint',
  '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
  '/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo',
  '/vectordb.VectorDB/Nothing',
  '/vectordb.VectorDB/__proto__',
  '/vectordb.VectorDB/../../x',
  '/',
  '/constructor',
  '*',
]

const wrongKeys = [
  '',
  'x',
  apiKey.slice(1),
  apiKey.slice(0, -1),
  `${apiKey}x`,
  apiKey.toUpperCase(),
  `Basic ${apiKey}`,
  'x'.repeat(10_000),
]

const floats = Buffer.alloc(4 * dimension, 1)
const query = Buffer.concat([
  Buffer.of(0x0a, 2 + floats.length, 0x0a, floats.length),
  floats,
  Buffer.of(0x18, 3),
])
/** Decompresses to a thousand times its size, far above the request limit. */
const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024))
const smallBomb = gzipSync(Buffer.alloc(maxRequestBytes - 100))

function bodyOf(dice: Dice, { stored }: World): Buffer {
  const id = Buffer.concat([Buffer.of(0x0a, 38, 0x0a, 36), Buffer.from(dice.pick(stored))])
  return dice.pick([
    () => frame(query),
    () => frame(id),
    () => Buffer.alloc(0),
    () => frame(query).subarray(0, dice.below(query.length + 5)),
    () => frame(query, 1 + dice.below(255)),
    () => Buffer.concat(dice.list(2 + dice.size(500), () => frame(query))),
    () => lengthened(dice, frame(query)),
    () => Buffer.concat([frame(query), dice.bytes(dice.size(50))]),
    () => frame(Buffer.alloc(maxRequestBytes + dice.size(1000))),
    () => frame(gzipSync(query), 1),
    () => frame(deflateSync(query), 1),
    () => frame(gzipSync(query).subarray(0, 10 + dice.below(15)), 1),
    () => frame(Buffer.concat([gzipSync(query), gzipSync(query)]), 1),
    () => frame(bomb, 1),
    () => frame(smallBomb, 1),
    () => frame(dice.damaged(gzipSync(query)), 1),
  ])()
}

function lengthened(dice: Dice, bytes: Buffer): Buffer {
  bytes.writeUInt32BE(dice.pick([0, 1, query.length + 1, 65_536, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1]), 1)
  return bytes
}

function headersOf(dice: Dice): Headers {
  if (dice.chance(0.5)) return { 'grpc-encoding': dice.pick(['gzip', 'deflate', 'identity']) }
  return dice.pick<Headers>([
    {},
    { 'grpc-encoding': dice.pick(['br', 'snappy', 'gzip, gzip', '__proto__', '']) },
    {
      'content-type': dice.pick([
        'text/plain',
        'application/json',
        'application/grpc+json',
        'application/grpc-web',
        'application/grpcx',
        '',
      ]),
    },
    {
      'grpc-timeout': dice.pick([
        '1n',
        '0S',
        '-1S',
        '1',
        'S',
        '99999999H',
        '999999999S',
        '1Q',
        '1.5S',
        'NaNS',
      ]),
    },
    { ':method': dice.pick(['GET', 'PUT', 'OPTIONS', 'HEAD']) },
    { [`x-${dice.below(9)}-bin`]: dice.pick(['not base64!', '=', 'AAAA,BBBB', 'A'.repeat(5000)]) },
    { 'grpc-accept-encoding': 'x,'.repeat(dice.size(1000)) },
    { 'user-agent': 'a'.repeat(dice.size(10_000)), 'grpc-previous-rpc-attempts': '-1' },
    { 'grpc-message': '%', 'grpc-status': '0', 'grpc-message-type': '__proto__' },
  ])
}
