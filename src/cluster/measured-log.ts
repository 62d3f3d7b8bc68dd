import { type AppendOptions, type CommitLog, type LogEntry, LogGap } from './commit-log.ts'

/** A log that measures its appends, and counts the positions that it lacks. */
export class MeasuredLog implements CommitLog {
  readonly id: string
  readonly #log: CommitLog
  readonly #onAppend: (seconds: number) => void
  #gaps = 0

  constructor(log: CommitLog, onAppend: (seconds: number) => void) {
    this.id = log.id
    this.#log = log
    this.#onAppend = onAppend
  }

  /** Gaps that readers found since the start. */
  get gaps(): number {
    return this.#gaps
  }

  async append(record: Uint8Array, options: AppendOptions): Promise<number> {
    const start = performance.now()
    const position = await this.#log.append(record, options)
    this.#onAppend((performance.now() - start) / 1000)
    return position
  }

  async *read(from: number, signal: AbortSignal): AsyncGenerator<LogEntry> {
    try {
      yield* this.#log.read(from, signal)
    } catch (error) {
      if (error instanceof LogGap) this.#gaps++
      throw error
    }
  }

  readonly get: CommitLog['get'] = (position) => this.#log.get(position)
  readonly bounds: CommitLog['bounds'] = () => this.#log.bounds()
  readonly trim: CommitLog['trim'] = (below) => this.#log.trim(below)
  readonly close: CommitLog['close'] = () => this.#log.close()
}
