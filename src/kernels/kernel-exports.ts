/**
 * The exports of src/kernels/assembly/index.ts. Addresses are byte offsets in the memory of the instance. `n` is the
 * padded row length in components, a multiple of 16. Metrics are numbers.
 */
export interface KernelExports {
  euclidean32(a: number, b: number, n: number): number
  manhattan32(a: number, b: number, n: number): number
  dot32(a: number, b: number, n: number): number
  hamming(a: number, b: number, n: number): number
  dot64(a: number, b: number, n: number): number
  distance64(metric: number, a: number, b: number, n: number, aa: number, bb: number): number
  /** Binds the instance to a segment's columns, given the header of any of its graphs. `attachGraph` includes this. */
  attachColumns(header: number): void
  /** Needs `attachColumns`. */
  scan(
    metric: number,
    query: number,
    queryNorm: number,
    rows: number,
    from: number,
    to: number,
    pool: number,
    k: number,
    count: number,
  ): number
  /** Needs `attachColumns`. */
  offerRow(
    metric: number,
    query: number,
    queryNorm: number,
    row: number,
    sequence: number,
    slot: number,
    pool: number,
    k: number,
    count: number,
  ): number
  /** As `scan`, but only for slots that match the filter. */
  scanMatching(
    metric: number,
    query: number,
    queryNorm: number,
    rows: number,
    from: number,
    to: number,
    pool: number,
    k: number,
    count: number,
  ): number
  /**
   * Limits searches and scans to the slots whose bits are set, until the next call.
   *
   * @param bitmap address of the bitmap, a multiple of 8; 0 for no limit
   * @param walkMax a walk gives up once it has compared more slots
   */
  setFilter(bitmap: number, walkMax: number): void
  /** Returns how many bits of slots [from, to) are set in the filter. */
  countMatching(from: number, to: number): number
  sortPool(pool: number, k: number, count: number): void
  encodeStored(row: number, n: number, width: number, code: number): void
  encodeQuery(row: number, n: number, width: number, code: number): void
  /** Writes the dot products of `query` with four rows of codes as i32 to `out`; `spill` is 128 bytes of scratch. */
  dotCodes(query: number, rows: number, stride: number, n: number, spill: number, out: number): void
  /** Encodes a row in four-bit codes; `width` is a multiple of 64. */
  encodeNibbles(row: number, n: number, width: number, code: number): void
  /** As `dotCodes`, for rows of four-bit codes; `n` is the number of bytes of a row. */
  dotNibbles(query: number, rows: number, stride: number, n: number, spill: number, out: number): void
  /** Encodes the row at an address as the code of a slot. Needs `attachColumns`. */
  encodeRow(row: number, slot: number): void
  /** Writes the hash of the row at an address as that of a slot. Needs `attachColumns` to columns with hashes. */
  hashRow(row: number, slot: number): void
  /** Binds the instance to a graph and a thread's lane. The functions below need it. */
  attachGraph(header: number, scratch: number, pool: number, visited: number): void
  insertSlot(slot: number, level: number, distanceKind: number): number
  searchGraph(
    metric: number,
    distanceKind: number,
    query: number,
    queryNorm: number,
    ef: number,
    reach: number,
    rerank: number,
    nearest: number,
    k: number,
    hidden: number,
  ): number
  walkGraph(
    metric: number,
    distanceKind: number,
    query: number,
    queryNorm: number,
    ef: number,
    reach: number,
    rerank: number,
    k: number,
    hidden: number,
  ): void
  /** Begins a scan by codes of the slots that match the filter; see assembly/code-scan.ts. */
  beginCodeScan(metric: number, distanceKind: number, query: number, queryNorm: number, breadth: number): void
  scanCodes(
    metric: number,
    query: number,
    queryNorm: number,
    from: number,
    to: number,
    breadth: number,
    nearest: number,
    k: number,
    count: number,
  ): number
  finishCodeScan(
    metric: number,
    query: number,
    queryNorm: number,
    nearest: number,
    k: number,
    count: number,
  ): number
  /** Returns how many slots the last walk or scan by codes compared. */
  comparedCount(): number
  /** Returns how many slots the last search measured exactly, without the slots that wait to be linked. */
  measuredCount(): number
  /** Returns 1 if the last walk with a filter ended because a scan of the matching slots is cheaper. */
  hasGivenUp(): number
  /** Returns the next slot to measure exactly; -1 if there is none. */
  nextToRerank(nearest: number, k: number, count: number): number
  /** Writes the code of a slot whose row is in memory. */
  encodeSlot(slot: number): void
  /** Writes to `out` the float32 distances of a stored slot to the slots of a list of u32, by a distance kind. */
  distancesFrom(slot: number, distanceKind: number, list: number, count: number, out: number): void
  /** Returns the exact (float64) distance of two slots whose rows are in memory. */
  exactDistance(metric: number, a: number, b: number): number
  /** Repairs about `most` lists. Returns the slot to continue from. */
  repairRange(from: number, to: number, distanceKind: number, most: number): number
  releaseLeaving(): void
  /** Reconnects a slot. Returns 1 if the slot was unreachable and got a link. */
  reconnect(slot: number, distanceKind: number): number
}
