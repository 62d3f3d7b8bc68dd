import { partitionCount } from './partitions.ts'

/**
 * In a cluster whose nodes have a part of the points each, a read can allow a partial answer: one without the
 * partitions for which no node answers. In a request, this header allows it; in an answer, it reports how much is
 * missing.
 */
export const partialHeader = 'vicinal-partial'

/** The permission for a partial answer. */
export interface PartialAllowance {
  /** A node that has not answered after this time is left out. Undefined: the timeout of the link between nodes. */
  readonly waitMs: number | undefined
}

/** How many of the points are missing in an answer. */
export interface Missing {
  /** Partitions for which no node answered. */
  readonly partitions: number
  /** The number of all partitions. */
  readonly of: number
}

/** The header's value in a request. */
export function allowanceText({ waitMs }: PartialAllowance): string {
  return waitMs === undefined ? 'allow' : `allow; wait=${waitMs}`
}

/** Reads the header of a request. @returns undefined for any other text */
export function allowanceOf(text: string): PartialAllowance | undefined {
  const [, wait] = /^\s*allow\s*(?:;\s*wait\s*=\s*(\d{1,9})\s*)?$/i.exec(text) ?? [undefined, null]
  if (wait === null) return undefined
  const waitMs = wait === undefined ? undefined : Number(wait)
  return waitMs === 0 ? undefined : { waitMs }
}

/** The header's value in an answer. */
export function missingText(partitions: number): string {
  return `${partitions}/${partitionCount}`
}

/** Reads the header of an answer. @returns undefined for any other text */
export function missingOf(text: string): Missing | undefined {
  const [, partitions, of] = /^(\d{1,4})\/(\d{1,4})$/.exec(text) ?? []
  return partitions === undefined ? undefined : { partitions: Number(partitions), of: Number(of) }
}
