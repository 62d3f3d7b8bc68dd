import { DatabaseError } from '../../src/base/errors.ts'
import { PartitionSet } from '../../src/base/partitions.ts'
import type { Sharding } from '../../src/cluster/cluster-node-options.ts'
import { ownersIn, ringOf } from '../../src/cluster/membership/ring.ts'
import type { Peers } from '../../src/cluster/requests.ts'
import { attemptOf, unlessAborted } from '../../src/cluster/waiting.ts'
import type { SimulatedNode } from './cluster-nodes.ts'
import type { SeededFaults } from './memory-log.ts'

/**
 * The partitions of simulated nodes, and the calls between the nodes. Calls take time and can get lost, as on a network
 * link.
 */
export class SimulatedShards {
  #owners: readonly (readonly string[])[]
  readonly #faults: SeededFaults | undefined
  readonly #nodes: () => readonly SimulatedNode[]

  constructor(
    names: readonly string[],
    replicas: number,
    faults: SeededFaults | undefined,
    nodes: () => readonly SimulatedNode[],
  ) {
    const ring = names.map((name, index) => ({ name, zone: `zone-${index % 2}` }))
    this.#owners = ownersIn(ringOf(ring, replicas))
    this.#faults = faults
    this.#nodes = nodes
  }

  /** Changes the owners of partitions. */
  own(partitions: PartitionSet, change: (owners: readonly string[]) => readonly string[]): void {
    this.#owners = this.#owners.map((owners, partition) =>
      partitions.has(partition) ? change(owners) : owners,
    )
  }

  /** The partitions that a node should hold. */
  heldBy(name: string): PartitionSet {
    return PartitionSet.of([...PartitionSet.all()].filter((p) => this.#owners[p]!.includes(name)))
  }

  /** The sharding of a node; mutants change it. */
  shardingOf(name: string, peers: Peers = this.peersOf(name)): Sharding {
    const isLive = (node: string): boolean => this.#find(node)?.running !== undefined
    return { owners: () => this.#owners, isLive, held: this.heldBy(name), peers }
  }

  /** How a node asks the others. */
  peersOf(name: string): Peers {
    return {
      ask: async (node, method, body, { signal: caller = never, timeoutMs } = {}) => {
        await this.#pass('the request is lost')
        const { running } = this.#find(node)!
        if (running === undefined) throw new DatabaseError('not_ready', 'the node is not running')
        // NodeRequests answers it by itself.
        if (method === 'ping') return Buffer.alloc(0)
        using attempt = attemptOf(
          [caller],
          () => (caller.aborted ? caller.reason : new DatabaseError('deadline_exceeded', 'no answer yet')),
          timeoutMs,
        )
        const { signal } = attempt
        const answer = running.node.peerHandlers.get(method)!(Buffer.from(body), { node: name, signal })
        const bytes = await unlessAborted(answer as Promise<Uint8Array>, signal)
        await this.#pass('the answer is lost')
        return Buffer.from(bytes)
      },
      stream: (node, method, body, { signal = never } = {}) => this.#parts(name, node, method, body, signal),
    }
  }

  async *#parts(
    name: string,
    node: string,
    method: string,
    body: Uint8Array,
    signal: AbortSignal,
  ): AsyncGenerator<Buffer, void> {
    await this.#pass('the request is lost')
    const { running } = this.#find(node)!
    if (running === undefined) throw new DatabaseError('not_ready', 'the node is not running')
    const answer = running.node.peerHandlers.get(method)!(Buffer.from(body), { node: name, signal })
    for await (const part of answer as AsyncIterable<Uint8Array>) {
      await this.#pass('a part of the answer is lost')
      yield Buffer.from(part)
    }
  }

  async #pass(loss: string): Promise<void> {
    await this.#faults?.delay()
    if (this.#faults?.happens('askLost')) throw new DatabaseError('not_ready', `a fault: ${loss}`)
  }

  #find(name: string): SimulatedNode | undefined {
    return this.#nodes().find((node) => node.name === name)
  }
}

const never: AbortSignal = new AbortController().signal
