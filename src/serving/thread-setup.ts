import type { BodyMemory } from '../base/budgets.ts'
import type { ReaderSetup } from '../collections/readers.ts'
import type { Config } from '../config.ts'

/** What a serving thread is started with. */
export interface ThreadSetup {
  readonly config: Config
  /** Its number, from 1; 0 is the engine's thread. */
  readonly thread: number
  /** Of the budgets of bodies. */
  readonly bodies: BodyMemory
  /** For the searches that the thread runs by itself. */
  readonly reads: ReaderSetup
  /** The memory of the shared state. */
  readonly state: SharedArrayBuffer
}

/**
 * What every serving thread must know of the engine at any time, in shared memory. Only the engine's thread writes.
 *
 *   ├ isReady ┼ dimension ┼ catalog ┤
 */
export class SharedState {
  readonly memory: SharedArrayBuffer
  readonly #words: Int32Array

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(3 * Int32Array.BYTES_PER_ELEMENT)) {
    this.memory = memory
    this.#words = new Int32Array(memory)
  }

  /** Whether the points are loaded. */
  get isReady(): boolean {
    return Atomics.load(this.#words, 0) === 1
  }

  setReady(): void {
    Atomics.store(this.#words, 0, 1)
  }

  /** The dimension of the default collection; undefined until its first insert. */
  get dimension(): number | undefined {
    return Atomics.load(this.#words, 1) || undefined
  }

  set dimension(dimension: number | undefined) {
    Atomics.store(this.#words, 1, dimension ?? 0)
  }

  /** Changes whenever a collection or an alias may have changed: what was known of them is out of date. */
  get catalog(): number {
    return Atomics.load(this.#words, 2)
  }

  noteCatalog(): void {
    Atomics.add(this.#words, 2, 1)
  }
}

export const engineThread = 0

/** How many threads serve. */
export interface ThreadCounts {
  /** From the start. */
  readonly first: number
  /** Once those that run are busy. */
  readonly max: number
}

/**
 * Returns how many threads besides the engine's serve; 0: the engine's thread does.
 *
 * @param given so many serve from the start
 */
export function servingThreadsOf({ threads, clusterNatsUrl }: Config, given?: number): ThreadCounts {
  // What the answers of a node wait for is known on the engine's thread.
  if (clusterNatsUrl.length > 0 || !canSharePorts()) return { first: 0, max: 0 }
  if (given !== undefined) return { first: given, max: given }
  if (threads < servingThreadsFrom) return { first: 0, max: 0 }
  return { first: 1, max: Math.min(threads, servingThreadsMax) }
}

/** Whether several threads can listen on one port: the system must spread connections among them. */
function canSharePorts(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return process.platform === 'linux' && (major >= 24 || (major === 22 && minor >= 12))
}

/** On fewer cores, one thread keeps the others busy, and handing requests over only costs. */
const servingThreadsFrom = 4
/** Each has a lane in every segment. */
const servingThreadsMax = 64
