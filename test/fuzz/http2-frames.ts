/** Hand-written HTTP/2 frames and header blocks (RFC 9113, RFC 7541), including invalid ones. */

export const preface: Buffer = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

export const types = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

export const endStream = 1
export const endHeaders = 4
export const acknowledged = 1

/** @param length the declared payload length; default: the real one */
export function h2Frame(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array = Buffer.alloc(0),
  length: number = payload.length,
): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

export function setting(id: number, value: number): Buffer {
  return Buffer.concat([Buffer.of(id >> 8, id & 255), uint32(value)])
}

/** Header fields as literals without indexing and without compression. */
export function headerBlock(fields: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(
    fields.map(([name, value]) => Buffer.concat([Buffer.of(0), hpackText(name), hpackText(value)])),
  )
}

export function hpackText(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  return Buffer.concat([hpackInteger(bytes.length, 7, 0), bytes])
}

/** An HPACK integer with a prefix of `bits` bits; `high` fills the rest of the first byte. */
export function hpackInteger(value: number, bits: number, high: number): Buffer {
  const most = 2 ** bits - 1
  if (value < most) return Buffer.of(high | value)
  const bytes = [high | most]
  let rest = value - most
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  return Buffer.from([...bytes, rest])
}
