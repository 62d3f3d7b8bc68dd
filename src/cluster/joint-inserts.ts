import { setTimeout as delay } from 'node:timers/promises'
import { partitionOf } from '../base/partitions.ts'
import type { NewPoint } from '../base/point.ts'
import type { Inserted, InsertOptions } from '../engine/database.ts'
import type { FoundPoints, LoggedInsert } from '../engine/logged-request.ts'
import { StaleRequest } from '../engine/stale-request.ts'

/**
 * Where nodes have a part of the points each, a node decides about the points that it has. What depends on more than one
 * partition is decided by what their owners say before: an insert that is stored as a whole or not at all, and what is kept
 * under an idempotency key, which all nodes keep.
 */
export function isJoint(
  points: readonly NewPoint[],
  { onError = 'abort', identity }: InsertOptions,
): boolean {
  if (!points.some(isDeciding)) return false
  if (identity !== undefined) return true
  return onError === 'abort' && ownPartitions(points).size > 1
}

/** The partition in which ids have to be drawn, so that its owners decide about all of it; undefined for any. */
export function partitionToDraw(
  points: readonly NewPoint[],
  { onError = 'abort' }: InsertOptions,
): number | undefined {
  return onError === 'abort' && points.some(isDeciding) ? [...ownPartitions(points)][0] : undefined
}

/** Whether the outcome depends on whether there is a point. */
function isDeciding({ id, onConflict = 'error' }: NewPoint): boolean {
  return id !== undefined && onConflict === 'error'
}

function ownPartitions(points: readonly NewPoint[]): ReadonlySet<number> {
  return new Set(points.flatMap(({ id }) => (id === undefined ? [] : partitionOf(id))))
}

export interface JointInsert {
  readonly request: LoggedInsert
  /** Looks for the points with the ids of the request, as of this position or later. */
  readonly find: (position: number) => Promise<FoundPoints>
  readonly write: (request: LoggedInsert) => Promise<Inserted>
}

/**
 *   which of the ids have points, ask their owners ─> a record with the answer ─> have they been changed since? ─ no: decided
 *         ^                                                                        └ yes: nothing is stored
 *         └────────────────────────────────────────────────────────────────────────────┘
 *
 * Every node can tell whether they have, by the log alone, and so all of them decide the same.
 *
 * @throws DatabaseError with which it is refused; `not_ready` when the points were changed again and again
 */
export async function insertJointly({ request, find, write }: JointInsert): Promise<Inserted> {
  let position = 0
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await write({ ...request, found: await find(position) })
    } catch (error) {
      if (!(error instanceof StaleRequest) || attempt === attemptsMax) throw error
      position = error.position
    }
    // Others that try the same should not meet it again.
    await delay(Math.random() * Math.min(firstPauseMs * 2 ** attempt, pauseMsMax))
  }
}

const attemptsMax = 16
const firstPauseMs = 2
const pauseMsMax = 500
