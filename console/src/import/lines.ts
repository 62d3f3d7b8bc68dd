/** A line of a file, with its number (from 1) and the byte where it ends. */
export interface Line {
  readonly number: number
  readonly text: string
  readonly endBytes: number
}

/** The server also refuses longer lines: this is the default of MAX_REQUEST_BYTES. */
const maxLineBytes = 64 * 1024 * 1024
const newline = 0x0a

/**
 * Yields the lines of a file that are not empty. It streams the file, which may be larger than memory.
 *
 * @throws Error if a line is too long, or is not UTF-8
 */
export async function* linesOf(file: Blob): AsyncGenerator<Line> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let parts: Uint8Array[] = []
  let partBytes = 0
  let number = 0
  let position = 0
  const finish = (last: Uint8Array): Line => {
    number++
    const text = decode(decoder, [...parts, last], number)
    parts = []
    partBytes = 0
    return { number, text, endBytes: position }
  }
  const reader = file.stream().getReader()
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    let chunk = read.value
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline)) {
      position += end + 1
      const line = finish(chunk.subarray(0, end))
      if (line.text !== '') yield line
      chunk = chunk.subarray(end + 1)
    }
    parts.push(chunk)
    partBytes += chunk.length
    position += chunk.length
    if (partBytes > maxLineBytes) throw new Error(`Line ${number + 1} is longer than 64 MiB.`)
  }
  const line = finish(new Uint8Array())
  if (line.text !== '') yield line
}

function decode(decoder: TextDecoder, parts: readonly Uint8Array[], number: number): string {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let start = 0
  for (const part of parts) {
    bytes.set(part, start)
    start += part.length
  }
  try {
    return decoder.decode(bytes).trim()
  } catch {
    throw new Error(`Line ${number} is not UTF-8.`)
  }
}
