import { destructive, faults, type Strike } from './faults.ts'
import { destructiveOfParts, faultsOfParts } from './faults-of-parts.ts'
import { deletedStream } from './lost-log.ts'

export interface Fault {
  readonly strike: Strike
  /** Whether it takes away a copy of points: then all the others have to be there before. */
  readonly takesCopies: boolean
}

/**
 * What can happen to a cluster, by name.
 *
 * @param replicas nodes that have each point; absent: all
 */
export function kindsOf(replicas?: number): Readonly<Record<string, Fault>> {
  const all = {
    ...{ ...faults, 'the stream of the log deleted, and the log repaired': deletedStream },
    ...(replicas === undefined ? {} : faultsOfParts),
  }
  return Object.fromEntries(
    Object.entries(all).map(([name, strike]) => [
      name,
      { strike, takesCopies: destructive.has(name) || destructiveOfParts.has(name) },
    ]),
  )
}

/** So many faults: all kinds in a random order, and then again in another one. */
export function drawFaults(kinds: readonly string[], count: number, random: () => number): readonly string[] {
  const chosen: string[] = []
  while (chosen.length < count) {
    const rest = [...kinds]
    while (rest.length > 0) chosen.push(...rest.splice(Math.floor(random() * rest.length), 1))
  }
  return chosen.slice(0, count)
}
