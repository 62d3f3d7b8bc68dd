import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../base/log.ts'
import type { CollectionSet } from '../collections/collection-set.ts'
import { differingPartitions } from '../storage/applied.ts'
import type { NodeDigest } from './log/request-codec.ts'

interface AuditsOptions {
  readonly node: string
  readonly logger: Logger
  /** How many other nodes hold a partition, as far as this one knows. */
  readonly othersWith: (partition: number) => number
  /** Called when most other nodes contradict this node. */
  readonly onMinority: (reason: string) => void
}

/** What this node held of a collection, and what others have said that they did. */
interface Audit {
  readonly collection: string
  readonly own: NodeDigest
  readonly different: NodeDigest[]
}

/**
 * Compares what the replicas hold. An audit record in the log asks all nodes for the digest of a collection at its
 * position, so equal replicas have equal digests. Each node appends its own to the log, where all others read it.
 *
 * A node is wrong when most of the others contradict it and agree with each other. If there is no such majority, as
 * between two nodes, all nodes raise the alarm and continue: a person has to find out which one is right.
 */
export class Audits {
  readonly #options: AuditsOptions
  /** The latest audits of this node. */
  #recent: readonly Audit[] = []
  #mismatches = 0

  constructor(options: AuditsOptions) {
    this.#options = options
  }

  /** Comparisons with other nodes that found a difference. */
  get mismatches(): number {
    return this.#mismatches
  }

  /** Notes what this node holds of a collection at an audit. Digests of others for it come later in the log. */
  add(collection: string, own: NodeDigest): void {
    this.#recent = [...this.#recent, { collection, own, different: [] }].slice(-recentMax)
  }

  /** Compares what another node held with what this one did. */
  compare(collection: string, other: NodeDigest): void {
    const { node, logger, onMinority } = this.#options
    const { position } = other
    const audit = this.#recent.find(
      (each) => each.collection === collection && each.own.position === position,
    )
    if (audit === undefined || other.node === node) return
    const { own, different } = audit
    const partitions = differing(own, other)
    if (partitions.length === 0) return
    this.#mismatches += 1
    different.push(other)
    logger.error({ collection, position, node: other.node, partitions }, 'replicas of the cluster differ')
    const wrong = this.#contradicted(audit)
    if (wrong === 0) return
    const nodes = different.map((each) => each.node).sort()
    onMinority(
      `this node holds other points than ${nodes.join(' and ')} in ${wrong} partitions of the collection ${collection}`,
    )
  }

  /**
   * In how many partitions this node is outvoted: at least two other nodes, and more than half of those that hold the
   * partition, agree on another digest.
   */
  #contradicted({ own, different }: Audit): number {
    const partitions = new Set(different.flatMap((other) => differing(own, other)))
    return [...partitions].filter((partition) => {
      const against = different.filter((other) => differing(own, other).includes(partition))
      const isOneVoice = against.every(
        ({ digest }) => !differingPartitions(against[0]!.digest, digest).includes(partition),
      )
      const others = this.#options.othersWith(partition)
      return isOneVoice && against.length >= 2 && against.length > others / 2
    }).length
  }
}

/** The partitions that both nodes hold and in which they differ. */
function differing(own: NodeDigest, other: NodeDigest): readonly number[] {
  const both = own.held.common(other.held)
  return differingPartitions(own.digest, other.digest).filter((each) => both.has(each))
}

/** Digests of others arrive some milliseconds after an audit. */
const recentMax = 8

interface NodeChoresOptions {
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
    const { markMs = usualMarkMs, auditMs = usualAuditMs } = this.#options
    const ofAudits = (): number => auditMs * (1 + Math.random())
    await Promise.all([
      this.#often(() => markMs, 'the position in the log could not be stored', this.#mark),
      this.#often(ofAudits, 'the replicas could not be compared', this.#audit),
    ])
  }

  /** Notes that some node has started a comparison. */
  noteAudit(): void {
    this.#auditedMs = performance.now()
  }

  /** Repeats some work; an error is logged. */
  async #often(pauseMs: () => number, failure: string, work: () => Promise<void>): Promise<void> {
    const { logger, signal } = this.#options
    while (!signal.aborted) {
      await delay(pauseMs(), undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      await work().catch((err: unknown) => {
        if (!signal.aborted) logger.warn({ err }, failure)
      })
    }
  }

  readonly #mark = async (): Promise<void> => {
    const position = this.#options.position()
    if (position === this.#floor) return
    await this.#options.mark()
    this.#floor = position
  }

  /** Compares one collection after the other. The first node whose time has come does it for all nodes. */
  readonly #audit = async (): Promise<void> => {
    const { auditMs = usualAuditMs, set } = this.#options
    if (performance.now() - this.#auditedMs < auditMs) return
    const collections = set.list()
    const { name } = collections[this.#audited % collections.length]!
    this.#audited += 1
    await this.#options.audit(name)
  }
}

const usualMarkMs = 5000
const usualAuditMs = 60_000
