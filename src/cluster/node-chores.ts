import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../base/log.ts'
import type { CollectionSet } from '../engine/collection-set.ts'

export interface NodeChoresOptions {
  /** Up to here, all records of the log are applied. */
  readonly position: () => number
  /** Stores that position. */
  readonly mark: () => Promise<void>
  /** Has all nodes compare what they hold of a collection. */
  readonly audit: (collection: string) => Promise<unknown>
  readonly set: CollectionSet
  readonly logger: Logger
  readonly signal: AbortSignal
  /** For tests, a few. */
  readonly markMs?: number | undefined
  /** For tests, a few. */
  readonly auditMs?: number | undefined
}

/** What a node does again and again by itself: it stores how far it is, and has the replicas compared. */
export class NodeChores {
  readonly #options: NodeChoresOptions
  #floor: number
  /** When an audit was last seen, by `performance.now()`. */
  #auditedMs = performance.now()
  #audited = 0

  /** @param floor stored as applied by all collections */
  constructor(options: NodeChoresOptions, floor: number) {
    this.#options = options
    this.#floor = floor
  }

  /** Stored as applied by all collections. */
  get floor(): number {
    return this.#floor
  }

  /** Ends soon after the signal aborts. */
  async run(): Promise<void> {
    await Promise.all([this.#markOften(), this.#auditOften()])
  }

  /** A node has had the replicas compared. */
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
        if (!signal.aborted) logger.warn({ err: error }, 'the position in the log is not stored')
      }
    }
  }

  /** One collection after the other. The node that is the first to find it time does it for all. */
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
        if (!signal.aborted) logger.warn({ err: error }, 'the replicas are not compared')
      }
    }
  }
}

const usualMarkMs = 5000
const usualAuditMs = 60_000
