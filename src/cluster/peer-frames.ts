import { PackedReader, PackedWriter } from './packed-bytes.ts'

/**
 * What two nodes send each other on a stream of the link. Each frame is one gRPC message:
 *
 *   ├ kind u8 │ fields of the kind ┤
 *
 *   asks                        answers
 *   hello ────────────────────>         name, versions, a nonce
 *         <──────────────────── hello   the same, and a proof of the secret
 *   proof ────────────────────>
 *   ask, rest.. ──────────────>         a request, in pieces
 *         <──────────────────── answer..   in pieces, of one message or of many
 *         <──────────────────── failure    instead of an answer, or after a part of it
 *   credit ───────────────────>         how many more messages of this answer are accepted
 *   cancel ───────────────────>         the answer is no longer wanted
 *
 * Many calls run in parallel, each with its own number. Pieces are small, so that a long answer does not hold up
 * short ones. The layout of hello never changes; the layouts of the others may change with the version.
 */
export type Frame =
  | Hello
  | { readonly kind: 'proof'; readonly proof: Uint8Array }
  | {
      readonly kind: 'ask'
      readonly call: number
      readonly method: number
      /** 0 for none. */
      readonly timeoutMs: number
      readonly isWhole: boolean
      readonly bytes: Buffer
    }
  | { readonly kind: 'rest'; readonly call: number; readonly isWhole: boolean; readonly bytes: Buffer }
  | {
      readonly kind: 'answer'
      readonly call: number
      /** Whether the message ends with this piece. */
      readonly isWhole: boolean
      /** Whether the call ends with this message. A stream of messages ends with an empty one, which does not count. */
      readonly isLast: boolean
      readonly bytes: Buffer
    }
  | { readonly kind: 'failure'; readonly call: number; readonly reason: string; readonly message: string }
  | { readonly kind: 'cancel'; readonly call: number }
  | { readonly kind: 'credit'; readonly call: number; readonly count: number }

/** The introduction of a node. */
export interface Hello {
  readonly kind: 'hello'
  /** The oldest and the newest version of the link that the sender supports. */
  readonly oldest: number
  readonly newest: number
  readonly cluster: string
  readonly node: string
  readonly nonce: Uint8Array
  /** Empty in the first hello, and when there is no secret. */
  readonly proof: Uint8Array
}

const kinds = { hello: 1, proof: 2, ask: 3, rest: 4, answer: 5, failure: 6, cancel: 7, credit: 8 } as const

export function encodeFrame(frame: Frame): Buffer {
  const to = new PackedWriter('bytes' in frame ? frame.bytes.length + headBytes : headBytes)
  to.byte(kinds[frame.kind])
  switch (frame.kind) {
    case 'hello':
      to.count(frame.oldest)
      to.count(frame.newest)
      to.text(frame.cluster)
      to.text(frame.node)
      to.bytes(frame.nonce)
      to.bytes(frame.proof)
      break
    case 'proof':
      to.bytes(frame.proof)
      break
    case 'ask':
      to.count(frame.call)
      to.count(frame.method)
      to.count(frame.timeoutMs)
      to.byte(Number(frame.isWhole))
      to.raw(frame.bytes)
      break
    case 'rest':
      to.count(frame.call)
      to.byte(Number(frame.isWhole))
      to.raw(frame.bytes)
      break
    case 'answer':
      to.count(frame.call)
      to.byte(Number(frame.isWhole) | (Number(frame.isLast) << 1))
      to.raw(frame.bytes)
      break
    case 'failure':
      to.count(frame.call)
      to.text(frame.reason)
      to.text(frame.message)
      break
    case 'cancel':
      to.count(frame.call)
      break
    case 'credit':
      to.count(frame.call)
      to.count(frame.count)
  }
  return to.written
}

/** @throws RangeError for bytes that no node wrote */
export function decodeFrame(bytes: Uint8Array): Frame {
  const from = new PackedReader(bytes)
  const kind = from.byte()
  switch (kind) {
    case kinds.hello: {
      const [oldest, newest] = [from.count(), from.count()]
      const [cluster, node] = [from.text(), from.text()]
      return { kind: 'hello', oldest, newest, cluster, node, nonce: from.bytes(), proof: from.bytes() }
    }
    case kinds.proof:
      return { kind: 'proof', proof: from.bytes() }
    case kinds.ask: {
      const [call, method, timeoutMs] = [from.count(), from.count(), from.count()]
      return { kind: 'ask', call, method, timeoutMs, isWhole: from.byte() === 1, bytes: from.rest() }
    }
    case kinds.rest:
      return { kind: 'rest', call: from.count(), isWhole: from.byte() === 1, bytes: from.rest() }
    case kinds.answer: {
      const call = from.count()
      const flags = from.byte()
      const [isWhole, isLast] = [(flags & 1) !== 0, (flags & 2) !== 0]
      return { kind: 'answer', call, isWhole, isLast, bytes: from.rest() }
    }
    case kinds.failure:
      return { kind: 'failure', call: from.count(), reason: from.text(), message: from.text() }
    case kinds.cancel:
      return { kind: 'cancel', call: from.count() }
    case kinds.credit:
      return { kind: 'credit', call: from.count(), count: from.count() }
  }
  throw new RangeError(`no frame of the link has the kind ${kind}`)
}

/** Splits a message into pieces, at least one, which are views of it. */
export function* piecesOf(
  message: Uint8Array,
): Generator<{ readonly bytes: Buffer; readonly isWhole: boolean }> {
  const { buffer, byteOffset, byteLength } = message
  const bytes = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
  let at = 0
  do {
    const end = Math.min(at + pieceBytes, bytes.length)
    yield { bytes: bytes.subarray(at, end), isWhole: end === bytes.length }
    at = end
  } while (at < bytes.length)
}

/** Assembles a message from its pieces. */
export class Pieces {
  readonly #pieces: Buffer[] = []
  readonly #bytesMax: number
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Returns the message when all of it has arrived. */
  add({
    bytes,
    isWhole,
  }: {
    readonly bytes: Buffer
    readonly isWhole: boolean
  }): Buffer | undefined | 'too long' {
    this.#bytes += bytes.length
    if (this.#bytes > this.#bytesMax) return 'too long'
    if (!isWhole) {
      this.#pieces.push(bytes)
      return undefined
    }
    this.#bytes = 0
    return this.#pieces.length === 0 ? bytes : Buffer.concat([...this.#pieces.splice(0), bytes])
  }
}

/** Longer messages are sent in pieces. On a network of 10 Gbit/s a piece takes 0.2 ms. */
const pieceBytes = 256 * 1024

/** The largest gRPC message on the link. */
export const frameBytesMax: number = 2 * pieceBytes

const headBytes = 64
