import { idBytes, idFromBytes } from '../../src/base/ids.ts'
import { idsFromSeed } from '../../src/base/partitions.ts'
import type { LoggedInsert, Stamp } from '../../src/write/requests.ts'
import type { SimulatedNode } from './cluster-nodes.ts'

/** A fault that the check of a simulated cluster has to find. */
export interface Mutant {
  /** Changes a node that has just started. */
  mutate(node: SimulatedNode): void
  /** Matches what the check then reports. Anything else, an exception for example, is not a finding. */
  readonly foundBy: RegExp
  /** The simulation to try first: it has usually found this mutant. Absent: 1. */
  readonly seed?: number
  /** See `SimulationOptions`. */
  readonly changesByFilter?: number | undefined
  readonly restarts?: number | undefined
  readonly settleMs?: number | undefined
  readonly timeoutMs?: number | undefined
}

/** A write was answered otherwise than the log decides it. */
export const wrongAnswer: RegExp = /^the answer of write \d+/

/** Faults of nodes that hold all points, by name. */
export const clusterMutants: Readonly<Record<string, Mutant>> = {
  'an insert is acknowledged before it is in the log': {
    seed: 2,
    foundBy: wrongAnswer,
    mutate({ up: { node } }) {
      const write = node.write.bind(node)
      Object.assign(node, {
        write: async (...[request, to]: Parameters<typeof write>) => {
          const written = write(request, to)
          if (request.kind !== 'insert' || request.points.some(({ id }) => id !== undefined))
            return await written
          written.catch(() => {})
          return { ids: drawnIds(request), errors: [] }
        },
      })
    },
  },
  'a record is skipped after a restart': {
    foundBy: /^(the answer of write \d+|the points of|the digest of|audits of|a \w+ read of)/,
    mutate({ up: { main }, runs }) {
      if (runs === 1) return
      const { replica } = main
      const apply = replica.apply.bind(replica)
      let isSkipped = false
      Object.assign(replica, {
        apply: async (...[request, stamp]: Parameters<typeof apply>) => {
          if (isSkipped || request.kind !== 'insert') return await apply(request, stamp)
          isSkipped = true
          return { ids: [], errors: [] }
        },
      })
    },
  },
  "expiry is decided by a node's own clock": {
    seed: 4,
    foundBy: wrongAnswer,
    mutate(node) {
      const { livePoints } = node.up.main
      const advanceTo = livePoints.advanceTo.bind(livePoints)
      Object.assign(livePoints, {
        advanceTo: (stamp: Stamp) => advanceTo({ ...stamp, nowUs: node.nowUs }),
      })
    },
  },
  'a read of the latest does not wait for a barrier': {
    seed: 2,
    foundBy: /^a latest read of/,
    mutate({ up: { node } }) {
      const admit = node.admit.bind(node)
      Object.assign(node, {
        latest: async () => node.position,
        admit: (...[read, signal]: Parameters<typeof admit>) =>
          admit(read.consistency === 'latest' ? { ...read, consistency: 'session' } : read, signal),
      })
    },
  },
}

function drawnIds({ points, idSeed }: LoggedInsert): string[] {
  const ids = idsFromSeed(idSeed, points.length, true)
  return points.map((_, index) => idFromBytes(ids, index * idBytes))
}
