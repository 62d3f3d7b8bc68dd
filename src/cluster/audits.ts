import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../base/log.ts'
import { PartitionSet } from '../base/partitions.ts'
import type { CollectionSet } from '../collections/collection-set.ts'
import { differingPartitions } from '../storage/applied.ts'
import type { SharedDocuments } from './log/commit-log.ts'

interface AuditsOptions {
  readonly documents: SharedDocuments
  readonly node: string
  readonly logger: Logger
  /** How long to wait for the digests of the other nodes; short in tests. */
  readonly waitMs?: number | undefined
  /** Called when most other nodes contradict this node. */
  readonly onMinority: (reason: string) => void
}

/** The result of comparing a collection with the other nodes. */
interface Comparison {
  /** Other nodes that have published their digest. */
  readonly compared: number
  /** How many of these hold something else. */
  readonly different: number
}

const nobody: Comparison = { compared: 0, different: 0 }

/** What a node publishes about a collection. */
interface Finding {
  readonly node: string
  readonly collection: string
  readonly position: number
  readonly digest: string
  /** The partitions that the node holds; absent: all. */
  readonly held?: string | undefined
}

/**
 * Compares what the replicas hold. An audit record in the log asks all nodes for the digest of a collection at the
 * record's position, so equal replicas have equal digests. Each node writes its digest to a shared document that the
 * others read.
 *
 * A node is wrong when most of the others contradict it and agree with each other. If there is no such majority, as
 * between two nodes, all nodes raise the alarm and continue: a person has to find out which one is right.
 */
export class Audits {
  readonly #options: AuditsOptions
  readonly #stop = new AbortController()
  #running: Promise<unknown> = Promise.resolve()
  /** This node's latest findings, which the others can still read. */
  #recent: readonly Finding[] = []
  #mismatches = 0

  constructor(options: AuditsOptions) {
    this.#options = options
  }

  /** Comparisons with other nodes that found a difference. */
  get mismatches(): number {
    return this.#mismatches
  }

  /**
   * Publishes this node's digest of a collection at a log position, and compares it with the others.
   *
   * @param held the partitions that this node holds; undefined: all
   */
  add(collection: string, position: number, digest: Uint8Array, held?: PartitionSet): Promise<Comparison> {
    const { node, logger } = this.#options
    const own = {
      node,
      collection,
      position,
      digest: Buffer.from(digest).toString('base64'),
      ...(held === undefined ? {} : { held: Buffer.from(held.bytes).toString('base64') }),
    }
    this.#recent = [...this.#recent, own].slice(-recentMax)
    // Written immediately: the others wait for it, while this node may still be waiting for an earlier one of theirs.
    const written = this.#write()
    written.catch(() => {})
    const comparison = this.#running
      .then(() => written)
      .then(() => this.#compare(own))
      .catch((err: unknown) => {
        if (!this.#stop.signal.aborted) logger.warn({ err }, 'the replicas could not be compared')
        return nobody
      })
    this.#running = comparison
    return comparison
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #compare(own: Finding): Promise<Comparison> {
    // Newer findings have replaced this one in the shared document: the others cannot read it any more.
    if (!this.#recent.includes(own)) return nobody
    const others = await this.#others(own)
    const different = others.filter((other) => differing(own, other).length > 0)
    this.#mismatches += different.length
    const comparison = { compared: others.length, different: different.length }
    if (different.length === 0) return comparison
    const { logger, onMinority } = this.#options
    const { collection, position } = own
    const partitions = differing(own, different[0]!)
    const nodes = different.map(({ node }) => node)
    logger.error({ collection, position, nodes, partitions }, 'replicas of the cluster differ')
    const wrong = contradicted(own, different, others)
    if (wrong.length > 0) {
      onMinority(
        `this node holds other points than ${nodes.join(' and ')} in ${wrong.length} partitions of the collection ${collection}`,
      )
    }
    return comparison
  }

  async #write(): Promise<void> {
    const { documents, node } = this.#options
    const name = nameOf(node)
    for (;;) {
      const before = await documents.get(name)
      const value = new TextEncoder().encode(JSON.stringify(this.#recent))
      if ((await documents.put(name, value, before?.revision ?? 0)) !== undefined) return
    }
  }

  /** The findings of the other nodes, as soon as all have published one, or when time is up. */
  async #others({ node, collection, position }: Finding): Promise<Finding[]> {
    const { documents, logger, waitMs = usualWaitMs } = this.#options
    const endMs = performance.now() + waitMs
    for (;;) {
      const names = [...(await documents.announced()).keys()].filter((each) => each !== node)
      // A node whose findings cannot be read must not keep this node from being compared with the others.
      const failed = new Map<string, unknown>()
      const found = await Promise.all(
        names.map(async (each) => {
          try {
            return findingsIn((await documents.get(nameOf(each)))?.value)
          } catch (error) {
            failed.set(each, error)
            return []
          }
        }),
      )
      const same = found.flat().filter((each) => each.collection === collection && each.position === position)
      if (same.length === names.length || performance.now() >= endMs) {
        for (const [other, err] of failed) logger.warn({ err, node: other }, 'a node could not be compared')
        return same
      }
      await delay(waitMs / attempts, undefined, { signal: this.#stop.signal, ref: false })
    }
  }
}

/** Document names allow few characters, so other node names are encoded. */
function nameOf(node: string): string {
  return plainName.test(node) ? `digest-${node}` : `digest.${Buffer.from(node).toString('base64url')}`
}

/**
 * Matches the names that are valid in the name of a document. These are not encoded, because earlier programs, which
 * can run in the same cluster, do not encode any.
 */
const plainName = /^[-/=\w]+(\.[-/=\w]+)*$/

function findingsIn(value: Uint8Array | undefined): readonly Finding[] {
  return value === undefined ? [] : (JSON.parse(new TextDecoder().decode(value)) as readonly Finding[])
}

/** The partitions that both nodes hold and in which they differ. */
function differing(own: Finding, other: Finding): readonly number[] {
  if (own.digest === other.digest && own.held === other.held) return []
  return differingPartitions(bytesOf(own), bytesOf(other)).filter((p) => has(own, p) && has(other, p))
}

/**
 * The partitions in which a node is outvoted: at least two other nodes, and more than half of those that hold the
 * partition, agree on another digest.
 */
function contradicted(
  own: Finding,
  different: readonly Finding[],
  others: readonly Finding[],
): readonly number[] {
  const partitions = new Set(different.flatMap((other) => differing(own, other)))
  return [...partitions].filter((partition) => {
    const against = different.filter((other) => differing(own, other).includes(partition))
    const count = others.filter((other) => has(other, partition)).length
    const first = bytesOf(against[0]!)
    const isOneVoice = against.every(
      (other) => !differingPartitions(first, bytesOf(other)).includes(partition),
    )
    return isOneVoice && against.length >= 2 && against.length > count / 2
  })
}

function has({ held }: Finding, partition: number): boolean {
  return held === undefined || new PartitionSet(Buffer.from(held, 'base64')).has(partition)
}

function bytesOf({ digest }: Finding): Uint8Array {
  return Buffer.from(digest, 'base64')
}

const usualWaitMs = 10_000
/** Findings in a node's document; a digest has 4 KiB. */
const recentMax = 8
const attempts = 20

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
