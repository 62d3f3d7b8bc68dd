import { partitionCount } from './partitions.ts'

/**
 * Where nodes of a cluster have a part of the points each, a read can allow an answer without the partitions of which no node
 * answers. In a request: whether it does; in an answer: how much is missing.
 */
export const partialHeader = 'vicinal-partial'

/** What a request says of answers that lack something. */
export interface PartialAllowance {
  /** Nodes that have not answered after so long are left out; undefined: as long as the link between nodes waits. */
  readonly waitMs: number | undefined
}

/** How much of the points an answer could not be made from. */
export interface Missing {
  /** Partitions of which no node has answered. */
  readonly partitions: number
  /** All partitions. */
  readonly of: number
}

/** In a request. */
export function allowanceText({ waitMs }: PartialAllowance): string {
  return waitMs === undefined ? 'allow' : `allow; wait=${waitMs}`
}

/** @returns undefined for what no request may say */
export function allowanceOf(text: string): PartialAllowance | undefined {
  const [, wait] = /^\s*allow\s*(?:;\s*wait\s*=\s*(\d{1,9})\s*)?$/i.exec(text) ?? [undefined, null]
  if (wait === null) return undefined
  const waitMs = wait === undefined ? undefined : Number(wait)
  return waitMs === 0 ? undefined : { waitMs }
}

/** In an answer. */
export function missingText(partitions: number): string {
  return `${partitions}/${partitionCount}`
}

/** @returns undefined where nothing is missing */
export function missingOf(text: string): Missing | undefined {
  const [, partitions, of] = /^(\d{1,4})\/(\d{1,4})$/.exec(text) ?? []
  return partitions === undefined ? undefined : { partitions: Number(partitions), of: Number(of) }
}
