/**
 * One point found by the index. `sequence` is the number of the insertion that filled the slot. It breaks ties, and
 * shows the engine which hits to drop because their slot was deleted or reused since.
 */
export interface Hit {
  readonly slot: number
  readonly sequence: number
  /** Distance in the query's metric. Euclidean distances are squared, which keeps their order. */
  readonly distance: number
}
