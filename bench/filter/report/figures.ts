import { type Cell, resultOf, type WayResult } from '../run/cell.ts'
import { libraryWays, type WayName } from '../ways.ts'

/**
 * The fastest of some ways that found enough; where none did, the one that found most. Undefined where none was
 * measured.
 */
export function bestOf(cell: Cell, names: readonly WayName[]): WayResult | undefined {
  const results = names.map((name) => resultOf(cell, name)).filter((each) => each !== undefined)
  const reached = results.filter(({ hasReached }) => hasReached)
  if (reached.length > 0) return largest(reached, ({ queriesPerSecond }) => queriesPerSecond)
  return largest(results, ({ recall }) => recall)
}

/**
 * Whether most searches of the forced walk were walks. Where too few points match, the index gives a walk up at once and scans:
 * that is the other plan, without what the engine adds to it.
 */
export function hasWalked({ plans, queries }: WayResult): boolean {
  return 2 * (plans.walk ?? 0) > queries
}

/**
 * How many times as long as the better plan the engine took: the scan of all matching points, or the walk, where it finds
 * enough, with its best ef. Whatever the plan, the filter has to be evaluated: the walk, which gets its bitmap beforehand, is
 * charged what evaluating took the engine, and so is the scan in place of its own evaluating. Whichever of the two comes first
 * evaluates, and the other finds the results kept.
 */
export function timesBetterPlan(cell: Cell): number | undefined {
  const planned = resultOf(cell, 'planned')
  const scan = resultOf(cell, 'exact')
  const walk = resultOf(cell, 'walk')
  if (planned === undefined || scan === undefined || walk === undefined) return undefined
  const filterUs = planned.filterUs ?? 0
  const scanUs = 1e6 / scan.queriesPerSecond - (scan.filterUs ?? 0) + filterUs
  const walkUs = 1e6 / walk.queriesPerSecond + filterUs
  const bestUs = walk.hasReached && hasWalked(walk) ? Math.min(scanUs, walkUs) : scanUs
  return 1e6 / planned.queriesPerSecond / bestUs
}

/** How many times as fast as the best library the engine was. */
export function timesLibraries(cell: Cell): number | undefined {
  return timesAsFast(cell, libraryWays)
}

/** The same of everything that there is to compare with, our own scan and our filtering afterwards among it. */
export function timesOthers(cell: Cell): number | undefined {
  return timesAsFast(cell, [...libraryWays, 'exact', 'post'])
}

/** A figure of the cells that have it. */
export function knownOf(cells: readonly Cell[], figure: (cell: Cell) => number | undefined): number[] {
  return cells.map(figure).filter((each) => each !== undefined)
}

function timesAsFast(cell: Cell, names: readonly WayName[]): number | undefined {
  const planned = resultOf(cell, 'planned')
  const best = bestOf(cell, names)
  if (planned === undefined || best === undefined) return undefined
  return planned.queriesPerSecond / best.queriesPerSecond
}

function largest<Each>(all: readonly Each[], figure: (each: Each) => number): Each | undefined {
  return all.reduce<Each | undefined>(
    (best, each) => (best === undefined || figure(each) > figure(best) ? each : best),
    undefined,
  )
}
