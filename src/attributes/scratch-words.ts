/**
 * A pool of bitmaps for intermediate results. Reuse pays off because the system clears fresh memory page by page, and
 * fresh memory is in no CPU cache. If a generator is abandoned, its bitmaps are left to the garbage collector.
 */
const released: Uint32Array[] = []

/** Returns an empty bitmap of this many words. */
export function takeWords(length: number): Uint32Array {
  const index = released.findIndex((words) => words.length === length)
  if (index === -1) return new Uint32Array(length)
  const [words] = released.splice(index, 1)
  return words!.fill(0)
}

/** Returns a bitmap to the pool. It must not be used afterwards. */
export function releaseWords(words: Uint32Array): void {
  if (words.byteLength > bytesMax) return
  if (released.length === countMax) released.shift()
  released.push(words)
}

/** Few filters nest deeper than this. */
const countMax = 8
/** A bitmap of 16 million slots. Larger ones are rarely needed, so keeping them would waste memory. */
const bytesMax = 2 ** 21
