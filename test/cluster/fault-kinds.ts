import { destructive, faults, type Strike } from './faults.ts'
import { destructiveOfParts, faultsOfParts } from './faults-of-parts.ts'

export interface Fault {
  readonly strike: Strike
  /** Whether it destroys a copy of points: then all other copies must exist before. */
  readonly takesCopies: boolean
}

/**
 * All faults of a cluster, by name.
 *
 * @param replicas copies of each point; absent: every node has all points
 */
export function kindsOf(replicas?: number): Readonly<Record<string, Fault>> {
  const all = { ...faults, ...(replicas === undefined ? {} : faultsOfParts) }
  return Object.fromEntries(
    Object.entries(all).map(([name, strike]) => [
      name,
      { strike, takesCopies: destructive.has(name) || destructiveOfParts.has(name) },
    ]),
  )
}

/** Draws `count` faults: all kinds in random order, then all again in another order, and so on. */
export function drawFaults(kinds: readonly string[], count: number, random: () => number): readonly string[] {
  const chosen: string[] = []
  while (chosen.length < count) {
    const rest = [...kinds]
    while (rest.length > 0) chosen.push(...rest.splice(Math.floor(random() * rest.length), 1))
  }
  return chosen.slice(0, count)
}
