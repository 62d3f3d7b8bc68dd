import { join } from 'node:path'
import { PartitionSet, partitionCount } from '../../src/base/partitions.ts'
import type { Sharding } from '../../src/cluster/cluster-node-options.ts'
import type { PeerCall, Peers } from '../../src/cluster/requests.ts'
import { SimulatedNode } from './cluster-nodes.ts'
import { SharedMemoryDocuments, type SharedMemoryLog } from './memory-log.ts'

export interface MovingPairOptions {
  /** Contains one directory for each of the two nodes. */
  readonly directory: string
  readonly log: Pick<SharedMemoryLog, 'connect'>
  /** Called for every request and every part of an answer. */
  readonly onMessage?: (() => void) | undefined
}

/** Two nodes in this process: one with all partitions, and one that has the first half of them at its first start. */
export class MovingPair {
  readonly giver: SimulatedNode
  readonly taker: SimulatedNode
  readonly #onMessage: () => void

  constructor({ directory, log, onMessage = () => {} }: MovingPairOptions) {
    this.#onMessage = onMessage
    const documents = new SharedMemoryDocuments()
    const node = (name: string, partitions: number): SimulatedNode =>
      new SimulatedNode({
        name,
        log,
        documents,
        dimension: 4,
        nowUs: () => 0,
        dataDir: join(directory, name),
        sharding: this.#sharding(PartitionSet.of(Array.from({ length: partitions }, (_, index) => index))),
      })
    this.giver = node('giver', partitionCount)
    this.taker = node('taker', partitionCount / 2)
  }

  #sharding(held: PartitionSet): Sharding {
    const owners = Array.from({ length: partitionCount }, () => ['giver', 'taker'])
    return { owners: () => owners, isLive: () => true, held, peers: this.#peers }
  }

  get #peers(): Peers {
    const answer = (
      method: string,
      body: Uint8Array,
      signal: PeerCall['signal'],
    ): Promise<Uint8Array> | AsyncIterable<Uint8Array> => {
      this.#onMessage()
      return this.giver.up.node.peerHandlers.get(method)!(Buffer.from(body), { node: 'taker', signal })
    }
    const parts = async function* (this: MovingPair, answers: AsyncIterable<Uint8Array>) {
      for await (const part of answers) {
        this.#onMessage()
        yield Buffer.from(part)
      }
    }.bind(this)
    return {
      ask: async (_, method, body, { signal = never } = {}) =>
        Buffer.from(await (answer(method, body, signal) as Promise<Uint8Array>)),
      stream: (_, method, body, { signal = never } = {}) =>
        parts(answer(method, body, signal) as AsyncIterable<Uint8Array>),
    }
  }
}

const never: AbortSignal = new AbortController().signal
