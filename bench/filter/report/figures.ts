import { type Cell, resultOf, type WayResult } from '../run/cell.ts'
import { libraryWays, type WayName } from '../ways.ts'

/**
 * The fastest of some ways with enough recall. If none has enough, the one with the highest recall. Undefined if none
 * was measured.
 */
export function bestOf(cell: Cell, names: readonly WayName[]): WayResult | undefined {
  const results = names.map((name) => resultOf(cell, name)).filter((each) => each !== undefined)
  const reached = results.filter(({ hasReached }) => hasReached)
  if (reached.length > 0) return largest(reached, ({ queriesPerSecond }) => queriesPerSecond)
  return largest(results, ({ recall }) => recall)
}

/**
 * Whether most searches of the forced walk were walks. If too few points match, the index immediately abandons a walk
 * and scans. That is the other plan, without the overhead of the engine.
 */
export function hasWalked({ plans, queries }: WayResult): boolean {
  return 2 * (plans.walk ?? 0) > queries
}

/**
 * The time of the engine divided by that of the better plan. The plans are the scan of all matching points, and the
 * walk with its best ef if its recall is enough. Every plan must evaluate the filter, but the walk gets its bitmap
 * beforehand. The engine's evaluation time is therefore added to the walk. It also replaces the scan's own evaluation
 * time: of the engine and the scan, the one that runs first evaluates the filter, and the other finds the result in the
 * cache.
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

/** The speed of the engine divided by that of the best library. */
export function timesLibraries(cell: Cell): number | undefined {
  return timesAsFast(cell, libraryWays)
}

/** The speed of the engine divided by that of the best alternative, including our own scan and post-filtering. */
export function timesOthers(cell: Cell): number | undefined {
  return timesAsFast(cell, [...libraryWays, 'exact', 'post'])
}

/** The values of a figure in the cells that have it. */
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
