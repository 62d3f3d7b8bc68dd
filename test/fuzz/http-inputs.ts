import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Dice } from './dice.ts'
import { closingOf, type Family, type Input, inTime, leakIn, type Outcome } from './input.ts'
import { apiKey, slowPauseMs, type Target } from './target.ts'

/**
 * HTTP that no client writes, each input on a new connection: bad request lines, contradictory lengths, wrong chunk
 * sizes, endless headers, path traversal, and bytes that arrive slowly or never. Each connection must be answered or
 * closed in time, never with a 5xx, and malformed HTTP must be refused. No input could store a point.
 */
export const httpFamily: Family = {
  name: 'http',
  share: 8,
  lanes: 24,
  make(dice) {
    if (dice.chance(0.03)) return slowInput(dice)
    const request = dice.pick([badLine, badPath, badHeader, badLength, badChunks])(dice)
    if (dice.chance(0.3)) return httpInput(`damaged: ${request.label}`, [dice.damaged(request.bytes)])
    if (dice.chance(0.2)) {
      return httpInput(`pipelined: ${request.label}`, [good, request.bytes, good, request.bytes])
    }
    return httpInput(request.label, [request.bytes], request.isRefused)
  },
}

interface Request {
  readonly label: string
  readonly bytes: Buffer
  /** Whether HTTP or our interface requires that the server refuses it. */
  readonly isRefused: boolean
}

function request(
  label: string,
  lines: readonly string[],
  body: Buffer | string = '',
  isRefused = false,
): Request {
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
  return { label, bytes: Buffer.concat([head, Buffer.from(body)]), isRefused }
}

const search = JSON.stringify({ vector: [1, 2, 3, 4, 5, 6, 7, 8], similarity: 'Hamming', limit: 3 })
const post = ['POST /points/search HTTP/1.1', 'host: localhost', 'content-type: application/json']
const good = request('', [...post, `content-length: ${search.length}`], search).bytes

function httpInput(label: string, parts: readonly Buffer[], isRefused = false): Input {
  return {
    label,
    parts,
    send: (target) => exchange(target, label, Buffer.concat(parts), isRefused),
    withParts: isRefused ? undefined : (others) => httpInput(label, others),
  }
}

async function exchange(target: Target, label: string, bytes: Buffer, isRefused: boolean): Promise<Outcome> {
  const socket = connect(target.httpPort, '127.0.0.1')
  let received = ''
  socket.setEncoding('latin1').on('data', (text) => {
    received += text
  })
  // The server may reset a connection that it has refused: only the answer before that counts.
  const closed = closingOf(socket)
  socket.write(bytes)
  // Closing our side immediately could cancel the request. An incomplete request gets no answer anyway.
  await Promise.race([closed, new Promise((resolve) => socket.once('data', resolve)), delay(150)])
  socket.end()
  await inTime(closed, label).finally(() => socket.destroy())
  return judged(received, isRefused)
}

function judged(received: string, isRefused: boolean): Outcome {
  const statuses = [...received.matchAll(/^HTTP\/1\.[01] (\d{3})/gm)].map(([, status]) => Number(status))
  const answer = statuses.length === 0 ? 'closed' : `${Math.floor(statuses.at(-1)! / 100)}xx`
  const failed = statuses.find((status) => status >= 500)
  const leak = leakIn(received, [apiKey])
  let fault: string | undefined
  if (failed !== undefined) fault = `answered ${failed}`
  else if (isRefused && !(statuses[0] === undefined || statuses[0] >= 400))
    fault = `took it, with ${statuses[0]}`
  else if (leak !== undefined) fault = `${leak} in the answer`
  return { answer, fault }
}

/** A request that is sent slowly and then stops: the server must end it by its timeout. */
function slowInput(dice: Dice): Input {
  const chunked = [...post, 'transfer-encoding: chunked']
  const whole = dice.chance(0.5) ? good : request('', chunked, '5\r\n{"vec\r\n').bytes
  const most = whole.length - (whole === good ? 1 : 0)
  const sent = whole.subarray(0, dice.below(most))
  const steps = 1 + dice.below(4)
  const label = `slow: ${sent.length} bytes in ${steps} steps, then none`
  return {
    label,
    parts: [sent],
    send: (target) => sendSlowly(target, label, sent, steps),
    withParts: undefined,
  }
}

async function sendSlowly(target: Target, label: string, bytes: Buffer, steps: number): Promise<Outcome> {
  const socket = connect(target.httpPort, '127.0.0.1')
  let received = ''
  socket.setEncoding('latin1').on('data', (text) => {
    received += text
  })
  // The server may reset a connection that it has refused: only the answer before that counts.
  const closed = closingOf(socket)
  const size = Math.ceil(bytes.length / steps)
  for (let at = 0; at < bytes.length && socket.writable; at += size) {
    socket.write(bytes.subarray(at, at + size))
    await delay(slowPauseMs)
  }
  await inTime(closed, label).finally(() => socket.destroy())
  return judged(received, true)
}

/** Valid HTTP/0.9 requests, and the HTTP/2 preface, which the parser may or may not accept. */
const takenForOther = /^GET \/$|^GET \/health|^PRI/

function badLine(dice: Dice): Request {
  const line = dice.pick([
    'GET',
    'GET /',
    'GET / HTTP/9.9',
    'GET / HTTP/1.1 and more',
    'GET / http/1.1',
    'GET /health HTTP/0.9',
    ' GET / HTTP/1.1',
    'get / HTTP/1.1',
    'GET\t/\tHTTP/1.1',
    'GET\u0000 / HTTP/1.1',
    'PRI * HTTP/2.0\r\n\r\nSM',
    `${'G'.repeat(1 + dice.size(20_000))} / HTTP/1.1`,
    '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003',
    'PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1',
    '*1\r\n$4\r\nPING',
    dice.bytes(dice.size(300)).toString('latin1').replaceAll('\n', ' '),
  ])
  const method = dice.pick([
    'CONNECT',
    'TRACE',
    'OPTIONS',
    'PATCH',
    'PUT',
    'PURGE',
    'PROPFIND',
    'M-SEARCH',
    'QUERY',
    'POST',
  ])
  return dice.chance(0.7)
    ? request('request line', [line, 'host: localhost'], '', !takenForOther.test(line))
    : request('method', [`${method} ${dice.pick(['/', '*', '/points', 'localhost:80'])} HTTP/1.1`, 'host: x'])
}

function badPath(dice: Dice): Request {
  const up = dice.pick([
    '../',
    '..%2f',
    '%2e%2e/',
    '%2e%2e%2f',
    '..\\',
    '..%5c',
    '..;/',
    '....//',
    '%c0%ae%c0%ae/',
    '%252e%252e%252f',
  ])
  const path = dice.pick([
    () => `/${up.repeat(1 + dice.below(9))}etc/passwd`,
    () => `/docs/${up.repeat(1 + dice.below(9))}etc/passwd`,
    () =>
      `/docs/static/${up.repeat(1 + dice.below(9))}${dice.pick(['etc/passwd', 'package.json', 'src/main.ts'])}`,
    () => `/docs/static//etc/passwd`,
    () => `/points/${up}search`,
    () => `//${dice.pick(['evil.example', 'points', '/'])}`,
    () =>
      `/${dice.pick(['%', '%zz', '%00', '%ff', '%u0041', '\u0000', '\u00ff', '{}', '|', '<x>', '"', '^'])}`,
    () => `/points/${dice.pick(['__proto__', 'constructor', 'a/b', 'a%2fb', '?', '#', ';'])}`,
    () => `/${'a'.repeat(dice.size(30_000))}`,
    () => `/${'a/'.repeat(dice.size(15_000))}`,
    () => `/points/search?${'a=b&'.repeat(dice.size(5000))}`,
    () => 'http://evil.example/health',
    () => 'health',
    () => '/.git/config',
    () => '/docs/json',
  ])()
  return request('path', [`GET ${path} HTTP/1.1`, 'host: localhost'])
}

function badHeader(dice: Dice): Request {
  const [header, isRefused] = dice.pick<() => readonly [string, boolean]>([
    () => ['no colon', true],
    () => [': no name', true],
    () => ['na me: x', true],
    () => ['content-length : 5', true],
    () => [`x: ${'a'.repeat(17_000 + dice.size(50_000))}`, true],
    () => [Array.from({ length: 3000 }, (_, index) => `x${index}: ${index}`).join('\r\n'), true],
    () => ['x: a\u0000b', true],
    () => ['x: a\rb', true],
    () => ['x: first\r\n folded', false],
    () => ['\u00e9: x', true],
    () => ['authorization: \u0001', true],
    () => [`authorization: ${'x'.repeat(dice.size(10_000))}`, false],
    () => ['host: other', true],
    () => ['expect: 200-maybe', true],
    () => ['expect: 100-continue', false],
    () => [
      'upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA',
      false,
    ],
    () => ['upgrade: websocket\r\nconnection: upgrade', false],
    () => ['connection: content-length', false],
    () => ['content-encoding: gzip', false],
    () => ['range: bytes=0-,0-,0-,0-', false],
    () => ['if-none-match: *\r\nif-modified-since: never', false],
    () => [`cookie: ${'a=b; '.repeat(dice.size(2000))}`, false],
    () => ['__proto__: x\r\nconstructor: y', false],
    () => ['x-forwarded-for: 127.0.0.1\r\nx-http-method-override: DELETE', false],
  ])()
  const path = dice.pick(['/health', '/docs/openapi.yaml', '/metrics', '/nowhere'])
  if (isRefused || dice.chance(0.3)) {
    return request(
      'header',
      [...post, header, `content-length: ${search.length}`],
      search,
      isRefused && header !== 'host: other',
    )
  }
  return request('header', [`GET ${path} HTTP/1.1`, 'host: localhost', header])
}

function badLength(dice: Dice): Request {
  const length = search.length
  const headers = dice.pick([
    [`content-length: ${length}`, `content-length: ${length + 1}`],
    [`content-length: ${length}, ${length}`],
    [`content-length: -${length}`],
    [`content-length: +${length}`],
    [`content-length: 0x${length.toString(16)}`],
    [`content-length: ${length}.0`],
    ['content-length: x'],
    ['content-length: 99999999999999999999999'],
    ['content-length: 18446744073709551617'],
    ['content-length: 9007199254740993'],
    [`content-length: ${length}`, 'transfer-encoding: chunked'],
    ['transfer-encoding: chunked', `content-length: ${length}`],
    ['transfer-encoding: chunked, identity'],
    ['transfer-encoding: xchunked'],
    ['transfer-encoding: gzip, chunked'],
    ['transfer-encoding: chunked', 'transfer-encoding: identity'],
  ])
  return request('length', [...post, ...headers], search, !headers[0]!.includes('gzip, chunked'))
}

function badChunks(dice: Dice): Request {
  const size = search.length.toString(16)
  const chunks = dice.pick([
    `${size}\r\n${search}\r\n`,
    `${size}\r\n${search}0\r\n\r\n`,
    `-${size}\r\n${search}\r\n0\r\n\r\n`,
    `0x${size}\r\n${search}\r\n0\r\n\r\n`,
    `ffffffffffffffff\r\n${search}\r\n0\r\n\r\n`,
    `fffffffffffffffff\r\n${search}\r\n0\r\n\r\n`,
    `g\r\n${search}\r\n0\r\n\r\n`,
    `\r\n${search}\r\n0\r\n\r\n`,
    ` ${size}\r\n${search}\r\n0\r\n\r\n`,
    `${size}\n${search}\n0\n\n`,
    `${size};${'x'.repeat(dice.size(40_000))}\r\n${search}\r\n0\r\n\r\n`,
    `${size};a=b\r\n${search}\r\n0\r\nx: ${'y'.repeat(dice.size(40_000))}\r\n\r\n`,
    `${'1\r\n[\r\n'.repeat(dice.size(10_000))}0\r\n\r\n`,
    `1\r\n{\r\n`.repeat(dice.size(100)),
    `${'0'.repeat(dice.size(500))}${size}\r\n${search}\r\n0\r\n\r\n`,
  ])
  return request('chunks', [...post, 'transfer-encoding: chunked'], chunks)
}
