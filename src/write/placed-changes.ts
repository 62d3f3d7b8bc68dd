import { assert } from '../base/assert.ts'
import type { Applied } from '../storage/applied.ts'
import type { Change, WriteGroup } from '../storage/store.ts'
import type { Decision } from './decision.ts'

/** A decision and the placement of its changes, for one attempt. */
export interface Placed extends Decision {
  /** The slot of each change. */
  readonly slots: readonly number[]
  /** For each change that moves its point: the slot that the point leaves. */
  readonly leaving: readonly (number | undefined)[]
  /** 1 for each change that has taken effect. */
  readonly isApplied: Uint8Array
}

/** Returns the vector of a change that needs a slot. */
export function vectorOf(change: Change): Float32Array | undefined {
  if (change.kind === 'insert') return change.point.vector
  return change.kind === 'update' ? change.vector : undefined
}

/** @param applied on a node of a cluster: how far its log is applied after the group */
export function groupOf(placed: readonly Placed[], applied?: Applied): WriteGroup {
  const group = {
    changes: placed.flatMap(({ changes }) => changes),
    slots: placed.flatMap(({ slots }) => slots),
    leaving: placed.flatMap(({ leaving }) => leaving),
    keyedRequests: placed.flatMap(({ keyedRequest }) => keyedRequest ?? []),
    applied,
    dimension: placed.find(({ dimension }) => dimension !== undefined)?.dimension,
  }
  const isEmpty = group.changes.length + group.keyedRequests.length === 0
  assert(!isEmpty || applied !== undefined, 'a group stores something')
  return group
}

/** The place of a change in a group. */
export interface Place {
  readonly placed: Placed
  /** Its position in `changes`. */
  readonly at: number
}

/** Returns the changes of a group by the ids of their points. Each id occurs once. */
export function placesOf(group: readonly Placed[]): ReadonlyMap<string, Place> {
  const places = new Map<string, Place>()
  for (const placed of group) {
    for (const [at, { id }] of placed.changes.entries()) places.set(id, { placed, at })
  }
  return places
}
