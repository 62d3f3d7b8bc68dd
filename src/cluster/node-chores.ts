import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../base/log.ts'
import type { CollectionSet } from '../collections/collection-set.ts'

export interface NodeChoresOptions {
  /** All log records up to here are applied. */
  readonly position: () => number
  /** Stores that position. */
  readonly mark: () => Promise<void>
  /** Makes all nodes compare what they hold of a collection. */
  readonly audit: (collection: string) => Promise<unknown>
  readonly set: CollectionSet
  readonly logger: Logger
  readonly signal: AbortSignal
  /** How often the position is stored; short in tests. */
  readonly markMs?: number | undefined
  /** How often the replicas are compared; short in tests. */
  readonly auditMs?: number | undefined
}

/** The regular work of a node: it stores its log position, and starts comparisons of the replicas. */
export class NodeChores {
  readonly #options: NodeChoresOptions
  #floor: number
  /** When an audit was last seen, by `performance.now()`. */
  #auditedMs = performance.now()
  #audited = 0

  /** @param floor the position that is stored as applied by all collections */
  constructor(options: NodeChoresOptions, floor: number) {
    this.#options = options
    this.#floor = floor
  }

  /** The position that is stored as applied by all collections. */
  get floor(): number {
    return this.#floor
  }

  /** Ends soon after the signal aborts. */
  async run(): Promise<void> {
    await Promise.all([this.#markOften(), this.#auditOften()])
  }

  /** Notes that some node has started a comparison. */
  noteAudit(): void {
    this.#auditedMs = performance.now()
  }

  async #markOften(): Promise<void> {
    const { markMs = usualMarkMs, logger, signal } = this.#options
    while (!signal.aborted) {
      await delay(markMs, undefined, { signal, ref: false }).catch(() => {})
      const position = this.#options.position()
      if (signal.aborted || position === this.#floor) continue
      try {
        await this.#options.mark()
        this.#floor = position
      } catch (error) {
        if (!signal.aborted) logger.warn({ err: error }, 'the position in the log could not be stored')
      }
    }
  }

  /** Compares one collection after the other. The first node whose time has come does it for all nodes. */
  async #auditOften(): Promise<void> {
    const { auditMs = usualAuditMs, set, logger, signal } = this.#options
    while (!signal.aborted) {
      await delay(auditMs * (1 + Math.random()), undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted || performance.now() - this.#auditedMs < auditMs) continue
      const collections = set.list()
      const { name } = collections[this.#audited % collections.length]!
      this.#audited += 1
      try {
        await this.#options.audit(name)
      } catch (error) {
        if (!signal.aborted) logger.warn({ err: error }, 'the replicas could not be compared')
      }
    }
  }
}

const usualMarkMs = 5000
const usualAuditMs = 60_000
