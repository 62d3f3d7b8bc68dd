/**
 * Bitmaps for results in between, to be used again: fresh memory has to be cleared by the system page by page, and is in no
 * cache. Those that a generator never releases, because it was given up, are left to the garbage collector.
 */
const released: Uint32Array[] = []

/** An empty bitmap of so many words. */
export function takeWords(length: number): Uint32Array {
  const index = released.findIndex((words) => words.length === length)
  if (index === -1) return new Uint32Array(length)
  const [words] = released.splice(index, 1)
  return words!.fill(0)
}

/** Nobody uses the bitmap any more. */
export function releaseWords(words: Uint32Array): void {
  if (words.byteLength > bytesMax) return
  if (released.length === countMax) released.shift()
  released.push(words)
}

/** Few filters nest deeper. */
const countMax = 8
/** Of 16 million slots: more is rare, and would hold the memory for nothing. */
const bytesMax = 2 ** 21
