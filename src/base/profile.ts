/** How a query was answered. */
export interface Profile {
  readonly plan: 'empty' | 'scan of all points' | 'scan of matching points' | 'graph'
  /** Why, in words for an operator. */
  readonly reason: string
  /** Stored points. */
  readonly points: number
  /** Points that match the filter; all of them without one. */
  readonly matching: number
  /** Vectors or codes whose distance was computed. */
  readonly compared: number
  /** Of these, those computed exactly, on float32. */
  readonly measured: number
  readonly ef: number
  /** The walk's beam is this many times ef. */
  readonly efMultiplier: number
  readonly filterUs: number
  readonly queueUs: number
  readonly searchUs: number
  /** Of this plan as last measured; undefined where none was. */
  readonly recallEstimate?: number | undefined
}
