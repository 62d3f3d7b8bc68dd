import {
  type Consistency,
  consistencies,
  consistencyHeader,
  positionHeader,
  positionOf,
} from '../base/consistency.ts'
import { operationRoles } from './access.ts'
import { type Call, type ClusterReads, invalid } from './call.ts'
import type { OperationName } from './operations.ts'

/**
 * Waits until this cluster node is as up to date as the call asks. A write only needs the position that its caller has
 * seen.
 *
 * @returns the position that other nodes must have reached
 */
export async function admit(cluster: ClusterReads, name: OperationName, call: Call): Promise<number> {
  return await admitCall(cluster, call, operationRoles[name] === 'write')
}

/** The same for requests that are not operations. */
export async function admitRead(cluster: ClusterReads, call: AskedPosition): Promise<number> {
  return await admitCall(cluster, call, false)
}

export type AskedPosition = Pick<Call, 'consistency' | 'position' | 'signal'>

async function admitCall(cluster: ClusterReads, call: AskedPosition, isWrite: boolean): Promise<number> {
  const asked = checkConsistency(call.consistency)
  const position = checkPosition(call.position)
  const consistency = isWrite ? 'session' : asked
  if (consistency === 'latest' || (consistency === 'session' && position > cluster.position)) {
    return await cluster.admit({ consistency, position }, call.signal)
  }
  return consistency === 'session' ? Math.max(position, cluster.acknowledged) : 0
}

function checkConsistency(given = 'session'): Consistency {
  const consistency = consistencies.find((each) => each === given)
  if (consistency !== undefined) return consistency
  throw invalid(`${consistencyHeader} is ${given.slice(0, 100)}: it is one of ${consistencies.join(', ')}`)
}

function checkPosition(given = '0'): number {
  const position = positionOf(given)
  if (position !== undefined) return position
  throw invalid(`${positionHeader} is ${given.slice(0, 100)}: it is a whole number from an earlier answer`)
}
