/**
 * How new the answer of a cluster's node must be. `session`: at least as new as the position that the caller sends.
 * `latest`: as new as every write acknowledged anywhere before. `available`: as new as the node is.
 */
export const consistencies = ['session', 'latest', 'available'] as const
export type Consistency = (typeof consistencies)[number]

/** The header that chooses the consistency: an HTTP header, or gRPC metadata. */
export const consistencyHeader = 'vicinal-consistency'
/** The header for a position: in a request, the last one the caller has seen; in an answer, the node's own. */
export const positionHeader = 'vicinal-position'

/** Reads a position of a cluster's log from a header; undefined if the text is not a position. */
export function positionOf(text: string): number | undefined {
  const position = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  return Number.isSafeInteger(position) ? position : undefined
}
