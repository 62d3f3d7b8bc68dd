/** Work that waits for a moment at which nothing else uses what it is about. */
export class RestWork {
  #waiting: { readonly work: () => Promise<void>; readonly giveUp: (reason: unknown) => void }[] = []

  /** Resolves with the result, once the moment has come. */
  do<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = Promise.withResolvers<Result>()
    this.#waiting.push({
      work: async () => await work().then(done.resolve, done.reject),
      giveUp: done.reject,
    })
    return done.promise
  }

  /** The moment has come; resolves when all is done that waits. */
  async pass(): Promise<void> {
    for (const { work } of this.#waiting.splice(0)) await work()
  }

  /** It will not come. */
  end(reason: unknown): void {
    for (const { giveUp } of this.#waiting.splice(0)) giveUp(reason)
  }
}
