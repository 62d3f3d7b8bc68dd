/** Work that can make way for other work between its parts: `inTurns` goes through it so. */
export type Parts<Result> = Generator<void, Result>

/** Goes through work that is known to be small, and gives its result. */
export function atOnce<Result>(work: Parts<Result>): Result {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}
