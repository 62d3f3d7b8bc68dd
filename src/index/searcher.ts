import type { KernelModule } from '../kernels/wasm-module.ts'
import { FlatScanner, type ScanQuery } from './flat-scanner.ts'
import type { Hit } from './hit.ts'
import type { SegmentHandle } from './segment.ts'

/** Slots [from, to) of a segment, numbered within it. */
export interface SlotRange {
  readonly ordinal: number
  readonly from: number
  readonly to: number
}

/** One thread's way to search: a scanner for each segment, over the thread's own lane of scratch. */
export class Searcher {
  readonly #kernels: KernelModule
  readonly #lane: number
  readonly #scanners: FlatScanner[] = []

  constructor(kernels: KernelModule, lane: number) {
    this.#kernels = kernels
    this.#lane = lane
  }

  attach(segment: SegmentHandle): void {
    this.#scanners[segment.ordinal] = new FlatScanner(segment, this.#kernels, this.#lane)
  }

  /** Whether these queries can go through a segment together. */
  fits(queries: readonly ScanQuery[]): boolean {
    return this.#scanners[0]?.fits(queries) ?? false
  }

  /**
   * The nearest of the live slots in `ranges` for each query, ascending by (distance, sequence).
   *
   * @param isCancelled asked every few thousand rows; once true, what was found so far is returned
   */
  search(
    queries: readonly ScanQuery[],
    ranges: readonly SlotRange[],
    isCancelled: () => boolean,
  ): readonly (readonly Hit[])[] {
    const parts = ranges.map(({ ordinal, from, to }) => {
      const scanner = this.#scanners[ordinal]!
      scanner.begin(queries)
      for (let at = from; at < to && !isCancelled(); at += rowsBetweenChecks) {
        scanner.scanRange(at, Math.min(at + rowsBetweenChecks, to))
      }
      return scanner.finish()
    })
    if (parts.length === 1) return parts[0]!
    return queries.map(({ k }, index) =>
      mergeHits(
        parts.map((part) => part[index]!),
        k,
      ),
    )
  }
}

/** The first `k` of several ascending lists, ascending. */
export function mergeHits(lists: readonly (readonly Hit[])[], k: number): readonly Hit[] {
  const filled = lists.filter((list) => list.length > 0)
  if (filled.length <= 1) return (filled[0] ?? []).slice(0, k)
  return filled
    .flat()
    .sort((a, b) => a.distance - b.distance || a.sequence - b.sequence)
    .slice(0, k)
}

/** A few milliseconds of scanning: soon enough for a caller who has gone. */
const rowsBetweenChecks = 4096
