import { setTimeout as delay } from 'node:timers/promises'
import { partitionOf } from '../base/partitions.ts'
import type { NewPoint } from '../base/point.ts'
import type { Inserted, InsertOptions } from '../points/database.ts'
import type { FoundPoints, LoggedInsert } from '../write/logged-request.ts'
import { StaleRequest } from '../write/logged-request.ts'

/**
 * Whether an insert has to be decided jointly. When each node holds only some of the points, a node decides about the
 * points that it holds. A decision that depends on several partitions needs the answers of their owners first. That
 * is the case for an all-or-nothing insert, and for the result kept under an idempotency key, which all nodes keep.
 */
export function isJoint(
  points: readonly NewPoint[],
  { onError = 'abort', identity }: InsertOptions,
): boolean {
  if (!points.some(isDeciding)) return false
  if (identity !== undefined) return true
  return onError === 'abort' && ownPartitions(points).size > 1
}

/** The partition in which to draw ids, so that its owners decide about the whole insert; undefined: any. */
export function partitionToDraw(
  points: readonly NewPoint[],
  { onError = 'abort' }: InsertOptions,
): number | undefined {
  return onError === 'abort' && points.some(isDeciding) ? [...ownPartitions(points)][0] : undefined
}

/** Whether the outcome depends on whether the point already exists. */
function isDeciding({ id, onConflict = 'error' }: NewPoint): boolean {
  return id !== undefined && onConflict === 'error'
}

function ownPartitions(points: readonly NewPoint[]): ReadonlySet<number> {
  return new Set(points.flatMap(({ id }) => (id === undefined ? [] : partitionOf(id))))
}

export interface JointInsert {
  readonly request: LoggedInsert
  /** Looks up the points with the ids of the request, as of this position or later. */
  readonly find: (position: number) => Promise<FoundPoints>
  readonly write: (request: LoggedInsert) => Promise<Inserted>
}

/**
 * Inserts points whose outcome depends on several partitions:
 *
 *   ask the owners which ids have points ─> append a record with the answer ─> changed since? ─ no: decided
 *         ^                                                                      └ yes: nothing is stored
 *         └──────────────────────────────────────────────────────────────────────────┘
 *
 * Every node can tell from the log alone whether the points have changed, so all of them decide the same.
 *
 * @throws DatabaseError with which the insert is refused; `not_ready` when the points changed again and again
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
    // A random pause keeps competing inserts from colliding again.
    await delay(Math.random() * Math.min(firstPauseMs * 2 ** attempt, pauseMsMax))
  }
}

const attemptsMax = 16
const firstPauseMs = 2
const pauseMsMax = 500
