/** How a query was answered. */
export interface Profile {
  readonly plan: 'empty' | 'scan of all points' | 'scan of matching points' | 'graph'
  /** Why this plan was chosen, in words for an operator. */
  readonly reason: string
  /** Stored points. */
  readonly points: number
  /** Points that match the filter; all stored points without a filter. */
  readonly matching: number
  /** Vectors or codes for which a distance was computed. */
  readonly compared: number
  /** The distances among them that were computed exactly, on float32. */
  readonly measured: number
  readonly ef: number
  /** The beam of the walk is ef times this. */
  readonly efMultiplier: number
  readonly filterUs: number
  readonly queueUs: number
  readonly searchUs: number
  /** Recall of this plan when it was last measured; undefined if it was not. */
  readonly recallEstimate?: number | undefined
}
