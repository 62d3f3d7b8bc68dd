/**
 * What src/kernels/assembly/index.ts exports. Addresses are byte offsets into the memory the module was
 * instantiated over; `n` is the padded row length in components, a multiple of 16; metrics are numbers.
 */
export interface KernelExports {
  euclidean32(a: number, b: number, n: number): number
  manhattan32(a: number, b: number, n: number): number
  dot32(a: number, b: number, n: number): number
  hamming(a: number, b: number, n: number): number
  dot64(a: number, b: number, n: number): number
  distance64(metric: number, a: number, b: number, n: number, aa: number, bb: number): number
  /** Binds the instance to a segment's columns, by the header of any of its graphs; `attachGraph` does so too. */
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
  /** As `scan`, of the slots that match the filter alone. */
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
   * Limits searches and scans to the slots whose bits are set, until it is called again; 0 for no limit.
   *
   * @param bitmap a multiple of 8
   * @param walkMax a walk that has compared more slots gives up
   */
  setFilter(bitmap: number, walkMax: number): void
  /** How many bits of slots [from, to) are set in the filter. */
  countMatching(from: number, to: number): number
  sortPool(pool: number, k: number, count: number): void
  encodeStored(row: number, n: number, width: number, code: number): void
  encodeQuery(row: number, n: number, width: number, code: number): void
  /** The sums of products of `query` with four rows of codes, as i32 at `out`; `spill` is 128 bytes. */
  dotCodes(query: number, rows: number, stride: number, n: number, spill: number, out: number): void
  /** Codes of four bits; `width` is a multiple of 64. */
  encodeNibbles(row: number, n: number, width: number, code: number): void
  /** As `dotCodes`, over rows of four-bit codes; `n` is the bytes of a row. */
  dotNibbles(query: number, rows: number, stride: number, n: number, spill: number, out: number): void
  /** Encodes the row at an address as the code of a slot; needs `attachColumns`. */
  encodeRow(row: number, slot: number): void
  /** Binds the instance to a graph and a thread's lane: the functions below need it. */
  attachGraph(header: number, scratch: number, pool: number, visited: number): void
  insertSlot(slot: number, level: number, measure: number): number
  searchGraph(
    metric: number,
    measure: number,
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
    measure: number,
    query: number,
    queryNorm: number,
    ef: number,
    reach: number,
    rerank: number,
    k: number,
    hidden: number,
  ): void
  /** Begins a scan by codes of the slots that match the filter; see code-scan.ts of the kernels. */
  beginCodeScan(metric: number, measure: number, query: number, queryNorm: number, breadth: number): void
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
  /** Slots that the last walk or scan by codes has compared. */
  comparedCount(): number
  /** Slots that the last search has measured exactly, those that waited to be linked not counted. */
  measuredCount(): number
  /** 1 if the last walk, one with a filter, ended because scanning the matching slots is the better plan. */
  hasGivenUp(): number
  /** A slot, or -1. */
  nextToRerank(nearest: number, k: number, count: number): number
  /** Writes the code of a slot whose row is in memory. */
  encodeSlot(slot: number): void
  /** Float32 distances of a stored slot to the slots of a list of u32, by a measure, at `out`. */
  distancesFrom(slot: number, measure: number, list: number, count: number, out: number): void
  /** The exact (float64) distance of two slots whose rows are in memory. */
  exactDistance(metric: number, a: number, b: number): number
  /** Repairs about `most` lists; returns the slot to continue from. */
  repairRange(from: number, to: number, measure: number, most: number): number
  releaseLeaving(): void
  /** Returns 1 if the slot could not be reached and got a link. */
  reconnect(slot: number, measure: number): number
}
