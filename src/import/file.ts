/** The bytes of a file, or of standard input. The command line and the console each open their own. */
export interface ImportFile {
  /** The name for messages, and for the ending that tells the format. */
  readonly name: string
  /** Undefined for a stream, which can only be read once. */
  readonly size: number | undefined
  /** Reads a range of a file. Not for a stream. */
  readonly read: (start: number, end: number) => Promise<Uint8Array>
  /** All bytes from `start` on; a stream has only one pass, from 0. */
  readonly chunks: (start?: number) => AsyncIterable<Uint8Array>
  /** The bytes from which the types of columns are decided: those of the whole file, or the first ones of a stream. */
  readonly sample: () => AsyncIterable<Uint8Array>
  /** Whether `sample` ends before the end of the stream. */
  readonly isSampleCut: boolean
}

/** A longer record is an error: no request could hold it. It is the default of MAX_REQUEST_BYTES. */
export const recordBytesMax: number = 64 * 1024 * 1024

/**
 * The bytes of a text file as UTF-8, without its byte order mark. UTF-16 is converted.
 *
 * @throws Error that names the encoding, if it is another one
 */
export async function* utf8Chunks(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder()
  let decoder: TextDecoder | undefined
  let head: Uint8Array | undefined = new Uint8Array()
  for await (const chunk of chunks) {
    let bytes = chunk
    if (head !== undefined) {
      head = joined(head, chunk)
      if (head.length < headBytes) continue
      ;[decoder, bytes] = decoderFor(head)
      head = undefined
    }
    yield decoder === undefined ? bytes : encoder.encode(decoded(decoder, bytes, true))
  }
  if (head !== undefined && head.length > 0) {
    const [found, bytes] = decoderFor(head)
    decoder = found
    yield decoder === undefined ? bytes : encoder.encode(decoded(decoder, bytes, true))
  }
  if (decoder !== undefined) yield encoder.encode(decoded(decoder, new Uint8Array(), false))
}

const headBytes = 64

/** The decoder of a text that begins with these bytes, undefined for UTF-8, and the bytes after the byte order mark. */
function decoderFor(head: Uint8Array): [TextDecoder | undefined, Uint8Array] {
  const begins = (...mark: readonly number[]): boolean => mark.every((byte, at) => head[at] === byte)
  if (begins(0xef, 0xbb, 0xbf)) return [undefined, head.subarray(3)]
  if (begins(0xff, 0xfe, 0, 0) || begins(0, 0, 0xfe, 0xff)) throw encodingError('UTF-32')
  const name = begins(0xff, 0xfe) ? 'utf-16le' : begins(0xfe, 0xff) ? 'utf-16be' : undefined
  if (name !== undefined) return [new TextDecoder(name, { fatal: true, ignoreBOM: true }), head.subarray(2)]
  if (head.subarray(0, 4).includes(0))
    throw encodingError('UTF-16 without a byte order mark, or a binary format')
  return [undefined, head]
}

function encodingError(name: string): Error {
  return new Error(`its encoding is ${name}: it must be UTF-8, or UTF-16 with a byte order mark`)
}

function decoded(decoder: TextDecoder, bytes: Uint8Array, stream: boolean): string {
  try {
    return decoder.decode(bytes, { stream })
  } catch {
    // Half of a surrogate pair, or an odd number of bytes.
    throw new Error('it is not well-formed UTF-16')
  }
}

export function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  if (first.length === 0) return second
  const bytes = new Uint8Array(first.length + second.length)
  bytes.set(first)
  bytes.set(second, first.length)
  return bytes
}

interface Line {
  /** From 1. */
  readonly number: number
  /** Without its end; undefined if it is not UTF-8. */
  readonly text: string | undefined
  /** Position in the UTF-8 text after its end. */
  readonly endBytes: number
}

/**
 * Reads lines that end with \n or \r\n only. JSON may contain U+2028 and U+2029, which others take for ends of lines.
 *
 * @throws Error at a line that is longer than any point
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Line> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let pieces: Uint8Array[] = []
  let pending = 0
  let number = 1
  let endBytes = 0
  const take = (piece: Uint8Array): void => {
    pieces.push(piece)
    pending += piece.length
    if (pending > recordBytesMax) {
      throw new Error(`line ${number}: the line is longer than ${recordBytesMax} bytes`)
    }
  }
  const finish = (): Line => {
    const text = textOf(decoder, pieces)
    pieces = []
    pending = 0
    number += 1
    return { number: number - 1, text, endBytes }
  }
  for await (const chunk of utf8Chunks(chunks)) {
    let from = 0
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
      take(chunk.subarray(from, end))
      endBytes += end + 1 - from
      yield finish()
      from = end + 1
    }
    take(chunk.subarray(from))
    endBytes += chunk.length - from
  }
  if (pending > 0) yield finish()
}

function textOf(decoder: TextDecoder, pieces: readonly Uint8Array[]): string | undefined {
  const line = pieces.length === 1 ? pieces[0]! : pieces.reduce(joined, new Uint8Array())
  try {
    return decoder.decode(line.at(-1) === carriageReturn ? line.subarray(0, -1) : line)
  } catch {
    return undefined
  }
}

const newline = 0x0a
const carriageReturn = 0x0d
