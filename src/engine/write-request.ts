import type { NewPoint } from '../base/point.ts'
import type { RequestIdentity } from './database.ts'

/** A request to change points, from the queue until it is answered. */
export type WriteRequest = InsertRequest | RemoveRequest

export interface InsertRequest extends Answer<readonly string[]> {
  readonly kind: 'insert'
  readonly points: readonly NewPoint[]
  readonly keyed: Keyed | undefined
  readonly signal: AbortSignal | undefined
}

interface RemoveRequest extends Answer<boolean> {
  readonly kind: 'remove'
  readonly id: string
  readonly signal: AbortSignal | undefined
}

/** A request's claim on the queue, and how it is answered. */
export interface Answer<Result> {
  readonly bytes: number
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

export interface Keyed {
  readonly identity: RequestIdentity
  /** Tells it from other requests of its group. */
  readonly name: string
}

export function keyedOf(identity: RequestIdentity): Keyed {
  return { identity, name: Buffer.from(identity.keyHash).toString('base64') }
}

/** The points of a request have vectors of one length. */
export function dimensionOf({ points }: InsertRequest): number {
  return points[0]!.vector.length
}

/** What a waiting point costs. */
export function pointBytes(point: NewPoint): number {
  return point.vector.byteLength + point.payload.content.length * 2 + requestOverheadBytes
}

/** What a waiting request costs besides its vectors and contents. */
export const requestOverheadBytes = 256
