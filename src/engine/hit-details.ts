import { selectAttributes } from '../base/attribute-selection.ts'
import { payloadBytes } from '../base/payload-bytes.ts'
import type { Include, Payload } from '../base/point.ts'
import type { HitDetails } from '../base/search-results.ts'

/** What details of a point are made from; each part is read only if it is asked for. */
export interface PointParts {
  /** Undefined if the point has just gone. */
  payload(): Payload | undefined
  vector(): Float32Array
  version(): number
}

/** What `include` asks for of a point. Of attributes alone, the payload has the content too, which is not shown. */
export function detailsOf(parts: PointParts, include: Include): HitDetails {
  const { attributes } = include
  return {
    payload: wantsPayload(include) ? selected(parts.payload(), attributes) : undefined,
    vector: include.vector ? parts.vector() : undefined,
    version: include.version ? parts.version() : undefined,
  }
}

/** Whether an answer has anything besides ids and distances. */
export function wantsDetails(include: Include | undefined): include is Include {
  return include !== undefined && (wantsPayload(include) || include.vector || include.version)
}

export function wantsPayload({ payload, attributes }: Include): boolean {
  return payload || attributes !== undefined
}

function selected(payload: Payload | undefined, paths: Include['attributes']): Payload | undefined {
  if (payload === undefined || paths === undefined || paths === 'all') return payload
  return { ...payload, attributes: selectAttributes(payload.attributes, paths) }
}

/** About how many bytes details take until they are sent. */
export function detailBytes({ payload, vector }: HitDetails): number {
  const ofPayload = payload === undefined ? 0 : payloadBytes(payload)
  return detailOverheadBytes + ofPayload + (vector?.byteLength ?? 0)
}

/** Of objects, as V8 allocates them. */
const detailOverheadBytes = 128
