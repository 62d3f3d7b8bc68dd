import { selectAttributes } from '../base/attribute-selection.ts'
import type { Include, Payload } from '../base/point.ts'
import { payloadBytes } from '../base/point.ts'
import type { HitDetails, SearchResults } from '../base/search-results.ts'

/** The parts of a point's details; each is read only if requested. */
export interface PointParts {
  /** Returns undefined if the point has just been removed. */
  payload(): Payload | undefined
  vector(): Float32Array
  version(): number
}

/** Returns what `include` asks for. If it asks for attributes only, the payload has no content. */
export function detailsOf(parts: PointParts, include: Include): HitDetails {
  return {
    payload: wantsPayload(include) ? selected(parts.payload(), include) : undefined,
    vector: include.vector ? parts.vector() : undefined,
    version: include.version ? parts.version() : undefined,
  }
}

/** Whether an answer contains anything besides ids and distances. */
export function wantsDetails(include: Include | undefined): include is Include {
  return include !== undefined && (wantsPayload(include) || include.vector || include.version)
}

export function wantsPayload({ payload, attributes }: Include): boolean {
  return payload || attributes !== undefined
}

function selected(
  payload: Payload | undefined,
  { payload: isWhole, attributes: paths }: Include,
): Payload | undefined {
  if (payload === undefined || (isWhole && (paths === undefined || paths === 'all'))) return payload
  const { content, attributes } = payload
  const shown = paths === 'all' ? attributes : selectAttributes(attributes, paths!)
  // A content that is not shown would be kept in memory until the answer is sent.
  return { ...payload, content: isWhole ? content : '', attributes: shown }
}

/** Returns about how many bytes details take until they are sent. */
export function detailBytes({ payload, vector }: HitDetails): number {
  const ofPayload = payload === undefined ? 0 : payloadBytes(payload)
  return detailOverheadBytes + ofPayload + (vector?.byteLength ?? 0)
}

export function bytesOfDetails({ details }: SearchResults): number {
  return details.flat().reduce((sum, each) => sum + (each === undefined ? 0 : detailBytes(each)), 0)
}

/** The overhead of the objects, as V8 allocates them. */
const detailOverheadBytes = 128
