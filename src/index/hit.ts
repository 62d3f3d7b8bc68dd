/**
 * One found point, as the index knows it. `sequence` is the number of the insertion that filled the slot:
 * it breaks ties, and the engine drops a hit whose slot has been deleted or reused since.
 */
export interface Hit {
  readonly slot: number
  readonly sequence: number
  /** In the query's metric; for Euclidean the squared distance, which orders alike. */
  readonly distance: number
}
