import { isUtf8 } from 'node:buffer'
import type { StoredPoint } from './target.ts'

/**
 * An independent reference for request bodies: plain conditions that decide the expected status, without the product's
 * code.
 */

export type JsonShape = 'point' | 'points' | 'query' | 'queries'

/** The points that a valid insert stores, none for a valid query; undefined if the body is invalid. */
export function readBody(shape: JsonShape, bytes: Buffer, dimension: number): StoredPoint[] | undefined {
  const body = parse(bytes)
  if (!isObject(body)) return undefined
  if (shape === 'point') return isPoint(body, dimension) ? [pointOf(body)] : undefined
  if (shape === 'query') return isQuery(body, dimension) ? [] : undefined
  const items = shape === 'points' ? body.vectors : body.queries
  if (!Array.isArray(items)) return undefined
  if (shape === 'queries') return items.every((item) => isQuery(item, dimension)) ? [] : undefined
  return items.every((item) => isPoint(item, dimension)) ? items.map(pointOf) : undefined
}

/**
 * Whether the service may refuse a body that is valid by its contract. This is so if an object has a repeated key: the
 * last one counts, but a single-pass parser has already seen an earlier one. It is also so if values are nested deeper
 * than the service supports. @param bytes valid JSON
 */
export function isBorderline(bytes: Buffer): boolean {
  const open: (Set<string> | undefined)[] = []
  for (const [token, colon] of bytes.toString().matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\]]/g)) {
    if (open.length === nestedMax) return true
    if (token === '{') open.push(new Set())
    else if (token === '[') open.push(undefined)
    else if (token === '}' || token === ']') open.pop()
    else if (colon !== undefined) {
      const key = JSON.parse(token.slice(0, -colon.length))
      if (open.at(-1)!.has(key)) return true
      open.at(-1)!.add(key)
    }
  }
  return false
}

const nestedMax = 10_000

function parse(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) return undefined
  try {
    return JSON.parse(bytes.toString())
  } catch {
    // Text that is not JSON is as invalid as any body that is not an object.
    return undefined
  }
}

type JsonObject = Readonly<Record<string, unknown>>

interface JsonPoint {
  readonly vector: readonly number[]
  readonly payload: { readonly content_type: 'Text' | 'Image'; readonly content: string }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isVector(value: unknown, dimension: number): boolean {
  return (
    Array.isArray(value) &&
    value.length === dimension &&
    value.every((each) => typeof each === 'number' && Number.isFinite(Math.fround(each)))
  )
}

function isPoint(value: unknown, dimension: number): value is JsonPoint {
  if (!isObject(value) || !isVector(value.vector, dimension) || !isObject(value.payload)) return false
  const { content_type, content } = value.payload
  const isKnown = content_type === 'Text' || content_type === 'Image'
  return isKnown && typeof content === 'string' && !/\p{Surrogate}/u.test(content)
}

function isQuery(value: unknown, dimension: number): boolean {
  if (!isObject(value) || !isVector(value.vector, dimension)) return false
  const { similarity, limit, ef } = value
  const isMetric = ['Euclidean', 'Manhattan', 'Hamming', 'Cosine'].includes(similarity as string)
  const isLimit = Number.isInteger(limit) && (limit as number) >= 1 && (limit as number) <= 16_384
  return isMetric && isLimit && (ef === undefined || (Number.isInteger(ef) && (ef as number) >= 0))
}

function pointOf({ vector, payload }: JsonPoint): StoredPoint {
  return {
    vector: Float32Array.from(vector),
    payload: { contentType: payload.content_type, content: payload.content },
  }
}
