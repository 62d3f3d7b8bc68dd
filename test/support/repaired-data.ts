import { createHash } from 'node:crypto'
import type { HeldPart } from '../../src/base/repair-plan.ts'
import { heldData } from '../../src/cluster/held-part.ts'
import type { DataStore, KeyedRequest } from '../../src/storage/store.ts'

/** What tests of repairs store on nodes, and what they look for afterwards. */

export const clockMs = 1_700_000_000_000

/** The data of a node as the plan of a repair takes it. */
export async function partOf(node: string, data: DataStore, position: number): Promise<HeldPart> {
  return { node, zone: node, address: node, position, ...(await heldData(data, undefined)) }
}

/** A keyed insert of one point of this partition. */
export function request(key: string, partition: number): KeyedRequest {
  const idSeed = hashOf(`seed of ${key}`)
  idSeed[0] = partition
  return {
    ...{ keyHash: hashOf(key), bodyHash: hashOf(`body of ${key}`), idSeed, isPartitioned: true },
    ...{ points: 1, acceptedMs: clockMs },
  }
}

export function isKnown(data: DataStore, key: string): boolean {
  return data.main.keyedRequest(hashOf(key))?.acceptedMs === clockMs
}

/** The numbers from `first` to `last`. */
export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index)
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest().subarray(0, 16)
}
