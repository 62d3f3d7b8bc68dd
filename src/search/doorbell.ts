/**
 * Wakes the main thread when a search thread has completed work. The main thread's event loop must never block, so it
 * listens with `Atomics.waitAsync`. While it does not listen, ringing costs nothing, and it later collects everything
 * that several threads have completed meanwhile.
 */
export class Doorbell {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(8)) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer)
  }

  /** Search threads: reports completed work. */
  ring(): void {
    if (Atomics.exchange(this.#words, armedWord, 0) === 0) return
    Atomics.add(this.#words, bellWord, 1)
    Atomics.notify(this.#words, bellWord)
  }

  /**
   * Main thread: the next ring calls `listener` once. Afterwards, check for work that was completed before this call.
   */
  listen(listener: () => void): void {
    const bell = Atomics.load(this.#words, bellWord)
    Atomics.store(this.#words, armedWord, 1)
    const rung = Atomics.waitAsync(this.#words, bellWord, bell)
    if (rung.async) rung.value.then(listener)
    else queueMicrotask(listener)
  }
}

const armedWord = 0
const bellWord = 1
