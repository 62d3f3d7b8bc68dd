/** Yields the lines of a UTF-8 body as they arrive. The last line needs no newline. */
export async function* linesOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string, void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      const lines = (rest + value).split('\n')
      rest = lines.pop()!
      yield* lines
    }
    if (rest !== '') yield rest
  } finally {
    // If the caller stops early, this closes the connection. A failure to cancel leaves nothing to clean up.
    await reader.cancel().catch(() => {})
  }
}
