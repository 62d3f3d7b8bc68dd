/** Work that waits for a moment when nothing else uses the same data. */
export class DeferredWork {
  #waiting: { readonly work: () => Promise<void>; readonly giveUp: (reason: unknown) => void }[] = []

  /** Queues work; resolves with its result. */
  do<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = Promise.withResolvers<Result>()
    this.#waiting.push({
      work: async () => await work().then(done.resolve, done.reject),
      giveUp: done.reject,
    })
    return done.promise
  }

  /** Does all queued work, now that the moment has come. */
  async pass(): Promise<void> {
    for (const { work } of this.#waiting.splice(0)) await work()
  }

  /** Rejects all queued work: the moment will not come. */
  end(reason: unknown): void {
    for (const { giveUp } of this.#waiting.splice(0)) giveUp(reason)
  }
}
