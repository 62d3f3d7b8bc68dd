import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../base/log.ts'
import { PartitionSet } from '../base/partitions.ts'
import { differingPartitions } from '../storage/partition-digest.ts'
import type { SharedDocuments } from './commit-log.ts'

export interface AuditsOptions {
  readonly documents: SharedDocuments
  readonly node: string
  readonly logger: Logger
  /** How long the others are waited for; for tests, a few. */
  readonly waitMs?: number | undefined
  /** Called when this node holds something else than most others. */
  readonly onMinority: (reason: string) => void
}

/** Of a collection, with what other nodes hold. */
export interface Comparison {
  /** Nodes that have said what they hold. */
  readonly compared: number
  /** Of these, those that hold something else. */
  readonly different: number
}

const nobody: Comparison = { compared: 0, different: 0 }

/** What a node says that it holds. */
interface Finding {
  readonly node: string
  readonly collection: string
  readonly position: number
  readonly digest: string
  /** The partitions that the node has; absent: all. */
  readonly held?: string | undefined
}

/**
 * Compares what the replicas hold. A record of the log asks all for the digest of a collection at its own position, so that
 * equal replicas have equal digests. Each writes its own where the others read it.
 *
 * A node that most of the others contradict, with one voice, is wrong. When that cannot be told, as between two nodes, all
 * of them raise the alarm and go on: it takes a person to say which one is right.
 */
export class Audits {
  readonly #options: AuditsOptions
  readonly #stop = new AbortController()
  #running: Promise<void> = Promise.resolve()
  /** The last ones, of which the others can still ask. */
  #recent: readonly Finding[] = []
  #mismatches = 0
  #compared = 0
  /** Of the last comparison of each collection. */
  readonly #outcomes = new Map<string, Promise<Comparison>>()

  constructor(options: AuditsOptions) {
    this.#options = options
  }

  /** Comparisons with other nodes that came out different. */
  get mismatches(): number {
    return this.#mismatches
  }

  /** Comparisons with other nodes. */
  get compared(): number {
    return this.#compared
  }

  /**
   * This node's digest of a collection at a position of the log.
   *
   * @param held the partitions that this node has, if not all
   */
  add(collection: string, position: number, digest: Uint8Array, held?: PartitionSet): void {
    const { node, logger } = this.#options
    const own = {
      ...{ node, collection, position, digest: Buffer.from(digest).toString('base64') },
      ...(held === undefined ? {} : { held: Buffer.from(held.bytes).toString('base64') }),
    }
    this.#recent = [...this.#recent, own].slice(-recentMax)
    // At once: the others wait for it, while this node may still be waiting for an earlier one of theirs.
    const written = this.#write()
    written.catch(() => {})
    const outcome = this.#running.then(() => written).then(() => this.#compare(own))
    this.#noteOutcome(
      collection,
      // Not known: as if there were no others.
      outcome.catch(() => nobody),
    )
    this.#running = outcome
      .then(() => {})
      .catch((err) => {
        if (!this.#stop.signal.aborted) logger.warn({ err }, 'the replicas could not be compared')
      })
  }

  /** What came out when a collection was compared last. */
  async outcomeOf(collection: string): Promise<Comparison> {
    return (await this.#outcomes.get(collection)) ?? nobody
  }

  #noteOutcome(collection: string, outcome: Promise<Comparison>): void {
    this.#outcomes.delete(collection)
    this.#outcomes.set(collection, outcome)
    // A map iterates in the order of insertion: the first is the oldest.
    if (this.#outcomes.size > recentMax) this.#outcomes.delete(this.#outcomes.keys().next().value!)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #compare(own: Finding): Promise<Comparison> {
    // So many are under way that the others have forgotten this one.
    if (!this.#recent.includes(own)) return nobody
    const others = await this.#others(own)
    const different = others.filter((other) => differing(own, other).length > 0)
    this.#compared += others.length
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

  /** What the other nodes say, as soon as all have, or time is up. */
  async #others({ node, collection, position }: Finding): Promise<Finding[]> {
    const { documents, waitMs = usualWaitMs } = this.#options
    const endMs = performance.now() + waitMs
    for (;;) {
      const names = [...(await documents.announced()).keys()].filter((each) => each !== node)
      const found = await Promise.all(names.map(async (each) => await documents.get(nameOf(each))))
      const same = found
        .flatMap((document) => findingsIn(document?.value))
        .filter((each) => each.collection === collection && each.position === position)
      if (same.length === names.length || performance.now() >= endMs) return same
      await delay(waitMs / attempts, undefined, { signal: this.#stop.signal, ref: false })
    }
  }
}

function nameOf(node: string): string {
  return `digest-${node}`
}

function findingsIn(value: Uint8Array | undefined): readonly Finding[] {
  return value === undefined ? [] : (JSON.parse(new TextDecoder().decode(value)) as readonly Finding[])
}

/** The partitions in which two nodes differ, of those that both have. */
function differing(own: Finding, other: Finding): readonly number[] {
  if (own.digest === other.digest && own.held === other.held) return []
  return differingPartitions(bytesOf(own), bytesOf(other)).filter((p) => has(own, p) && has(other, p))
}

/** The partitions in which most of the others that have them contradict a node with one voice. */
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
/** Of 4 KiB each. */
const recentMax = 8
const attempts = 20
