import { isUtf8 } from 'node:buffer'
import { createReadStream } from 'node:fs'

export interface Line {
  /** Without the end of the line; undefined if it is not UTF-8. */
  readonly text: string | undefined
  /** With the end of the line. */
  readonly bytes: number
}

/**
 * Reads lines that end with \n or \r\n only. JSON may contain U+2028 and U+2029, which Node's readline takes for ends
 * of lines.
 *
 * @throws Error at a line that is longer than any point
 */
export async function* linesOf(file: string): AsyncGenerator<Line> {
  const input: AsyncIterable<Buffer> = file === '-' ? process.stdin : createReadStream(file)
  let pieces: Buffer[] = []
  let pending = 0
  let number = 1
  const take = (piece: Buffer): void => {
    pieces.push(piece)
    pending += piece.length
    if (pending > lineBytesMax)
      throw new Error(`${file}:${number}: the line is longer than ${lineBytesMax} bytes`)
  }
  for await (const chunk of input) {
    let from = 0
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
      take(chunk.subarray(from, end))
      yield { text: textOf(pieces), bytes: pending + 1 }
      pieces = []
      pending = 0
      number += 1
      from = end + 1
    }
    take(chunk.subarray(from))
  }
  if (pending > 0) yield { text: textOf(pieces), bytes: pending }
}

function textOf(pieces: readonly Buffer[]): string | undefined {
  const line = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
  if (!isUtf8(line)) return undefined
  return line.toString('utf8', 0, line.at(-1) === carriageReturn ? line.length - 1 : line.length)
}

const newline = 0x0a
const carriageReturn = 0x0d
/** The default limit of a request. */
export const lineBytesMax: number = 64 * 1024 * 1024
