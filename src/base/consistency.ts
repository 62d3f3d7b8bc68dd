/**
 * How new the answer of a node of a cluster has to be: at least as new as the position that the caller gives; as everything
 * that was acknowledged anywhere before; or as it happens to be.
 */
export const consistencies = ['session', 'latest', 'available'] as const
export type Consistency = (typeof consistencies)[number]

/** Headers of HTTP, metadata of gRPC. */
export const consistencyHeader = 'vicinal-consistency'
/** In a request what the caller has seen, in an answer how far the node is. */
export const positionHeader = 'vicinal-position'

/** A position of a cluster's log in a header; undefined when it is none. */
export function positionOf(text: string): number | undefined {
  const position = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  return Number.isSafeInteger(position) ? position : undefined
}
