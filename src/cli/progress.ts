import { MultiBar, type SingleBar } from 'cli-progress'

/** Shows the progress of an import: a bar on a terminal, nothing elsewhere, so that logs stay readable. */
export class Progress {
  /** Holds the bar, because it can write lines above it. */
  readonly #bars: MultiBar | undefined
  readonly #bar: SingleBar | undefined
  readonly #stream: NodeJS.WriteStream
  readonly #totalBytes: number | undefined
  readonly #startedMs: number = performance.now()
  #points = 0
  #bytes = 0

  /** @param totalBytes size of the input; undefined if it is unknown */
  constructor(totalBytes: number | undefined, stream: NodeJS.WriteStream = process.stderr) {
    this.#stream = stream
    this.#totalBytes = totalBytes
    if (!stream.isTTY) return
    const format =
      totalBytes === undefined
        ? '{points} points | {rate} points/s | {duration_formatted}'
        : '{bar} {percentage}% | {points} points | {rate} points/s | {eta_formatted} left'
    this.#bars = new MultiBar({
      format,
      stream,
      barsize: 30,
      barCompleteChar: '█',
      barIncompleteChar: '░',
      hideCursor: true,
      forceRedraw: true,
    })
    this.#bar = this.#bars.create(totalBytes ?? 0, 0, this.#figures())
    this.#bars.update()
  }

  /** Counts stored points, and the bytes of the input that they came from. */
  advance(points: number, bytes: number): void {
    this.#points += points
    this.#bytes += bytes
    const value = Math.min(this.#bytes, this.#totalBytes ?? 0)
    this.#bar?.update(value, this.#figures())
  }

  /** Writes a line for people, above the bar. */
  note(text: string): void {
    if (!this.#bars?.isActive) {
      this.#stream.write(`${text}\n`)
      return
    }
    this.#bars.log(`${text}\n`)
    this.#bars.update()
  }

  /** Leaves the last state of the bar on its own line, and restores the terminal. Idempotent. */
  stop(): void {
    if (this.#bars?.isActive) this.#bars.stop()
  }

  #figures(): { points: number; rate: number } {
    const seconds = (performance.now() - this.#startedMs) / 1000
    return { points: this.#points, rate: Math.round(this.#points / Math.max(seconds, 0.001)) }
  }
}
